package tlsfiles_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// files are files in memory.
type files map[string]string

func (f files) Read(name string) ([]byte, error) {
	if text, ok := f[name]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (f files) Wrong(name, _ string, _ ...any) error { return errors.New(name) }

func secret(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// replica is a server behind an address that it shares with others.
type replica struct {
	secrets [][]byte
	files   tlsfiles.Server
	clock   time.Duration // its difference
}

// config returns the configuration of a replica whose clock is ahead of the system's.
func (r *replica) config(t *testing.T, all files) *tls.Config {
	t.Helper()
	c, err := r.files.Read(all, r.secrets...)
	check.Must(t, err)
	c.Time = func() time.Time { return time.Now().Add(r.clock) }
	return c.Clone()
}

const day = 24 * time.Hour

// TestReplicasShareSessions: a client resumes its session at another replica with the same secret and certificate, for
// a time, unless one of them accepts client certificates. It has a full handshake everywhere else.
func TestReplicasShareSessions(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	cert, key := certtest.PEMOf(t, authority.Server(t))
	cert2, key2 := certtest.PEMOf(t, authority.Server(t))
	all := files{"cert": cert, "key": key, "cert2": cert2, "key2": key2, "ca": authority.PEM}
	open := tlsfiles.Server{CertFile: "cert", KeyFile: "key"}
	renewed := tlsfiles.Server{CertFile: "cert2", KeyFile: "key2"}
	verify, need := open, open
	verify.ClientCAFile, verify.Optional, need.ClientCAFile = "ca", true, "ca"
	one, two := [][]byte{secret(1)}, [][]byte{secret(2), secret(1)}
	for name, test := range map[string]struct {
		first, second replica
		version       uint16
		resumed       bool
	}{
		"the same secret":       {replica{one, open, 0}, replica{one, open, 0}, 0, true},
		"a former secret":       {replica{one, open, 0}, replica{two, open, 0}, 0, true},
		"another secret":        {replica{one, open, 0}, replica{two[:1], open, 0}, 0, false},
		"no secret":             {replica{nil, open, 0}, replica{nil, open, 0}, 0, false},
		"TLS 1.2":               {replica{one, open, 0}, replica{one, open, 0}, tls.VersionTLS12, false},
		"another certificate":   {replica{one, open, 0}, replica{one, renewed, 0}, 0, false},
		"almost a day later":    {replica{one, open, 0}, replica{one, open, day - time.Minute}, 0, true},
		"a clock behind":        {replica{one, open, day / 2}, replica{one, open, 0}, 0, true},
		"later than a day":      {replica{one, open, 0}, replica{one, open, day + time.Minute}, 0, false},
		"a clock far behind":    {replica{one, open, day}, replica{one, open, 0}, 0, false},
		"client certificates":   {replica{one, need, 0}, replica{one, need, 0}, 0, false},
		"optional ones":         {replica{one, verify, 0}, replica{one, verify, 0}, 0, false},
		"from a port without":   {replica{one, open, 0}, replica{one, verify, 0}, 0, false},
		"from optional ones":    {replica{one, verify, 0}, replica{one, open, 0}, 0, false},
		"from optional to need": {replica{one, verify, 0}, replica{one, need, 0}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := test.first.config(t, all), test.second.config(t, all)
			client := authority.Visitor(authority.Client(t, nil, "spiffe://example.org/a"))
			client.MaxVersion = test.version
			if certtest.Visit(t, first, client) {
				t.Fatal("the first handshake resumed a session")
			}
			if resumed := certtest.Visit(t, second, client); resumed != test.resumed {
				t.Errorf("resumed: %v, want %v", resumed, test.resumed)
			}
			if !certtest.Visit(t, second, client) {
				t.Error("the same replica does not resume its own session")
			}
		})
	}
}

// TestSessionsEnd: a session that is resumed again and again ends a day after its full handshake, at one replica and
// across replicas. The next one lasts as long.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	cert, key := certtest.PEMOf(t, authority.Server(t))
	all := files{"cert": cert, "key": key, "ca": authority.PEM}
	open := tlsfiles.Server{CertFile: "cert", KeyFile: "key"}
	need := open
	need.ClientCAFile = "ca"
	for name, test := range map[string]struct {
		replica
		version uint16
		shared  bool
	}{
		"shared":                         {replica{[][]byte{secret(1)}, open, 0}, 0, true},
		"no secret":                      {replica{nil, open, 0}, 0, false},
		"client certificates":            {replica{[][]byte{secret(1)}, need, 0}, 0, false},
		"TLS 1.2":                        {replica{[][]byte{secret(1)}, open, 0}, tls.VersionTLS12, false},
		"TLS 1.2 and client certificate": {replica{nil, need, 0}, tls.VersionTLS12, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, err := test.files.Read(all, test.secrets...)
			check.Must(t, err)
			began := time.Now()
			later := func(c *x509.Certificate) { c.NotAfter = began.Add(10 * day) }
			client := authority.Visitor(authority.Client(t, later, "spiffe://example.org/a"))
			client.MaxVersion = test.version
			for visit := range 24 {
				now := began.Add(time.Duration(visit) * 5 * time.Hour)
				if test.shared {
					at, err = test.files.Read(all, test.secrets...)
					check.Must(t, err)
				}
				at.Time = func() time.Time { return now }
				if resumed, want := certtest.Visit(t, at, client), visit%5 != 0; resumed != want {
					t.Fatalf("visit %d after %v: resumed %v, want %v", visit, now.Sub(began), resumed, want)
				}
			}
		})
	}
}

// perConnection returns the configuration of a new connection to a port with a secret.
func perConnection(t *testing.T, authority *certtest.Authority) *tls.Config {
	t.Helper()
	cert, key := certtest.PEMOf(t, authority.Server(t))
	server := tlsfiles.Server{CertFile: "cert", KeyFile: "key"}
	port, err := server.Read(files{"cert": cert, "key": key}, secret(1))
	check.Must(t, err)
	c, err := port.GetConfigForClient(nil)
	check.Must(t, err)
	c.GetConfigForClient = nil
	return c
}

// TestForeignTicketsAreIgnored: what is no ticket means a full handshake, and no error.
func TestForeignTicketsAreIgnored(t *testing.T) {
	t.Parallel()
	c := perConnection(t, certtest.New(t))
	for _, ticket := range [][]byte{nil, {1}, make([]byte, 4), make([]byte, 200)} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			if s, err := c.UnwrapSession(ticket, tls.ConnectionState{Version: version}); s != nil || err != nil {
				t.Errorf("%x: %v, %v", ticket, s, err)
			}
		}
	}
}

// TestATicketIsOfItsPeriod: a ticket is valid in the period that it names, and in no other.
func TestATicketIsOfItsPeriod(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	server := perConnection(t, authority)
	wrap, tickets := server.WrapSession, make(chan []byte, 1)
	server.WrapSession = func(at tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		ticket, err := wrap(at, session)
		tickets <- ticket
		return ticket, err
	}
	certtest.Visit(t, server, authority.Visitor())
	ticket := check.Received(t, tickets, "the ticket")
	at := tls.ConnectionState{Version: tls.VersionTLS13}
	if s, err := server.UnwrapSession(ticket, at); s == nil || err != nil {
		t.Errorf("the ticket: %v, %v", s, err)
	}
	for i := range ticket {
		changed := bytes.Clone(ticket)
		changed[i]++
		if s, err := server.UnwrapSession(changed, at); s != nil || err != nil {
			t.Errorf("a ticket with another byte %d: %v, %v", i, s, err)
		}
	}
}

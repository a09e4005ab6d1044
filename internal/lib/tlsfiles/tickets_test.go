package tlsfiles_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
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

// visit connects to a replica, and reports whether the session was resumed. The handshake ends with a byte of each
// side, so that the client has the ticket.
func visit(t *testing.T, server, client *tls.Config) (resumed bool) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer func() { _ = ln.Close() }()
	served := make(chan error, 1)
	go func() {
		nc, err := ln.Accept()
		if err == nil {
			tc, b := tls.Server(nc, server), make([]byte, 1)
			if _, err = tc.Read(b); err == nil {
				_, err = tc.Write(b)
			}
			_ = tc.Close()
		}
		served <- err
	}()
	c, err := tls.Dial("tcp", ln.Addr().String(), client)
	check.Must(t, err)
	defer func() { _ = c.Close() }()
	_, err = c.Write([]byte{1})
	check.Must(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	check.Must(t, err)
	check.Must(t, check.Received(t, served, "the end of the server"))
	return c.ConnectionState().DidResume
}

// TestReplicasShareSessions: a client resumes its session at another replica with the same secret, for a time, and has
// a full handshake everywhere else.
func TestReplicasShareSessions(t *testing.T) {
	t.Parallel()
	authority, other := certtest.New(t), certtest.New(t)
	cert, key := certtest.PEMOf(t, authority.Server(t))
	all := files{"cert": cert, "key": key, "ca": authority.PEM, "ca2": authority.PEM + other.PEM}
	open, ask := tlsfiles.Server{CertFile: "cert", KeyFile: "key"}, tlsfiles.Server{
		CertFile: "cert", KeyFile: "key", ClientCAFile: "ca", Optional: true}
	askOthers := ask
	askOthers.ClientCAFile = "ca2"
	one, two := [][]byte{secret(1)}, [][]byte{secret(2), secret(1)}
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		first, second replica
		version       uint16
		resumed       bool
	}{
		"the same secret":      {replica{one, open, 0}, replica{one, open, 0}, 0, true},
		"a former secret":      {replica{one, open, 0}, replica{two, open, 0}, 0, true},
		"another secret":       {replica{one, open, 0}, replica{two[:1], open, 0}, 0, false},
		"TLS 1.2":              {replica{one, open, 0}, replica{one, open, 0}, tls.VersionTLS12, false},
		"a day later":          {replica{one, open, 0}, replica{one, open, day}, 0, true},
		"a clock behind":       {replica{one, open, day / 2}, replica{one, open, 0}, 0, true},
		"later than a day":     {replica{one, open, 0}, replica{one, open, day + day/2}, 0, false},
		"a clock far behind":   {replica{one, open, day}, replica{one, open, 0}, 0, false},
		"the same authorities": {replica{one, ask, 0}, replica{one, ask, 0}, 0, true},
		"other authorities":    {replica{one, ask, 0}, replica{one, askOthers, 0}, 0, false},
		"a port without them":  {replica{one, open, 0}, replica{one, ask, 0}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Unix(1e9, 0)
			config := func(r replica) *tls.Config {
				c, err := r.files.Read(all)
				check.Must(t, err)
				clock := func() time.Time { return began.Add(r.clock) }
				check.Must(t, r.files.ShareSessions(c, r.secrets, all, clock))
				return c.Clone()
			}
			first, second := config(test.first), config(test.second)
			client := &tls.Config{RootCAs: authority.Pool, MaxVersion: test.version,
				ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			if visit(t, first, client) {
				t.Fatal("the first handshake resumed a session")
			}
			if resumed := visit(t, second, client); resumed != test.resumed {
				t.Errorf("resumed: %v, want %v", resumed, test.resumed)
			}
			if !visit(t, second, client) {
				t.Error("the same replica does not resume its own session")
			}
		})
	}
}

// TestForeignTicketsAreIgnored: what is no ticket means a full handshake, and no error.
func TestForeignTicketsAreIgnored(t *testing.T) {
	t.Parallel()
	var c tls.Config
	check.Must(t, (&tlsfiles.Server{}).ShareSessions(&c, [][]byte{secret(1)}, files{}, nil))
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
	server := &tls.Config{Certificates: []tls.Certificate{authority.Server(t)}}
	check.Must(t, (&tlsfiles.Server{}).ShareSessions(server, [][]byte{secret(1)}, files{}, nil))
	wrap, tickets := server.WrapSession, make(chan []byte, 1)
	server.WrapSession = func(at tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		ticket, err := wrap(at, session)
		tickets <- ticket
		return ticket, err
	}
	visit(t, server, &tls.Config{RootCAs: authority.Pool, ClientSessionCache: tls.NewLRUClientSessionCache(1)})
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

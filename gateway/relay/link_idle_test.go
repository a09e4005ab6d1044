package relay

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// reader reads from the connections that an accept.Server gives it, through a connLink.
type reader struct {
	received int      // bytes since the last Await
	waits    chan int // receives at each Await the bytes read since the last
	done     chan struct{}
}

// watched notes when the link waits without a buffer.
type watched struct {
	accept.Input
	r *reader
}

func (w *watched) Await() {
	select {
	case w.r.waits <- w.r.received:
	case <-w.r.done:
	}
	w.r.received = 0
	w.Input.Await()
}

func (r *reader) NewConn(nc net.Conn, _ []byte, _ *accept.Peer) (serve func()) {
	l := newConnLink(nc)
	l.input = &watched{l.input, r}
	return func() {
		for {
			buf, n, err := l.read()
			releaseRead(buf)
			if err != nil {
				_ = nc.Close()
				return
			}
			r.received += n
		}
	}
}

func (*reader) RejectCleartext(net.Conn, io.Reader) {}

// TestIdleLinksHaveNoBuffer: after each message, of any size, a link waits without a buffer, also after a handshake
// with a client certificate, which takes more records.
func TestIdleLinksHaveNoBuffer(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	client := &tls.Config{RootCAs: authority.Pool, ServerName: "127.0.0.1", NextProtos: []string{"h2"},
		DynamicRecordSizingDisabled: true,
		Certificates:                []tls.Certificate{authority.Client(t, nil, "spiffe://example.org/a")}}
	for name, port := range map[string]*tls.Config{
		"TLS 1.2":                    {MaxVersion: tls.VersionTLS12},
		"TLS 1.2 with a certificate": {MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert},
		"TLS 1.3":                    {},
		"TLS 1.3 with a certificate": {ClientAuth: tls.RequireAnyClientCert},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reader{waits: make(chan int, 16), done: make(chan struct{})}
			s := accept.New(accept.Config{Log: slog.New(slog.DiscardHandler), SetupTimeout: check.Patience,
				Limits:   accept.Limits{MaxConns: 1, MaxNetworkConns: 1},
				Panicked: func(_ string, v any) { t.Error(v) }}, r, http.NotFoundHandler())
			port.Certificates = []tls.Certificate{authority.Server(t)}
			var at accept.Port
			at.SetTLS(port)
			ln, served := check.Listen(t), make(chan error, 1)
			go func() { served <- s.Serve(ln, &at) }()
			check.Cleanup(t, func() {
				close(r.done)
				s.Close()
				check.Must(t, check.Received(t, served, "the end of serving"))
				s.Wait()
			})
			c, err := tls.Dial("tcp", ln.Addr().String(), client)
			check.Must(t, err)
			defer func() { _ = c.Close() }()
			check.Must(t, c.SetDeadline(time.Now().Add(check.Patience)))
			check.Received(t, r.waits, "a new link without a buffer")
			for _, n := range []int{1, shortRead - frameHeaderLen, shortRead, 16 << 10, 16 << 10, 1} {
				_, err := c.Write(make([]byte, n))
				check.Must(t, err)
				for left := n; left > 0; {
					left -= check.Received(t, r.waits, "a link without a buffer")
				}
			}
		})
	}
}

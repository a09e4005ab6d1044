package relay

import (
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// counted counts the writes of a socket.
type counted struct {
	net.Conn
	writes atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestRecordsAreWrittenTogether: output over TLS is written in pieces of accept.GatherBytes, whatever the size of the
// records, from the beginning of a connection.
func TestRecordsAreWrittenTogether(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	authority := certtest.New(t)
	socket := &counted{Conn: a}
	server := tls.Server(&accept.Gatherer{Conn: socket},
		&tls.Config{Certificates: []tls.Certificate{authority.Server(t)}})
	client := tls.Client(b, &tls.Config{RootCAs: authority.Pool, ServerName: "127.0.0.1"})
	received := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, client) // returns when the socket is closed
		received <- n
	}()
	check.Must(t, server.Handshake())
	l, before, total := newConnLink(server), socket.writes.Load(), int64(0)
	for _, n := range []int{100, 12 << 10, 31 << 10, 100 << 10, 10 << 10, 31 << 10} {
		check.Must(t, l.send(make([]byte, n)))
		total += int64(n)
	}
	// 100 KiB take four writes, and each of the other sizes takes one.
	if n := socket.writes.Load() - before; n != 9 {
		t.Errorf("%d writes, want 9", n)
	}
	l.shut()
	if n := check.Received(t, received, "the end of the client"); n != total {
		t.Errorf("%d bytes arrived, want %d", n, total)
	}
}

package accept

import (
	"crypto/tls"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// timedConn records the deadlines of reads and writes. A read lasts until one is changed.
type timedConn struct {
	net.Conn
	began, changed chan struct{}
	set            []time.Time
}

func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.set = append(c.set, t)
	select {
	case c.changed <- struct{}{}:
	default: // before a read
	}
	return nil
}

func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.set = append(c.set, t)
	return nil
}

func (c *timedConn) Read([]byte) (int, error) {
	select {
	case <-c.changed: // of this read
	default:
	}
	c.began <- struct{}{}
	<-c.changed
	return 0, nil
}

func (*timedConn) Write(p []byte) (int, error) { return len(p), nil }

// TestDeadlines: only the last deadline before a read or a write is set, unless the connection has it already, and one
// during a read is set at once.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	under := &timedConn{began: make(chan struct{}), changed: make(chan struct{}, 1)}
	s := &Server{}
	c := s.newHTTP1Conn(under, &Peer{})
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	want := func(seconds ...int64) {
		t.Helper()
		same := func(t time.Time, n int64) bool { return t.Equal(at(n)) }
		if !slices.EqualFunc(under.set, seconds, same) {
			t.Errorf("the deadlines are %v, want %v", under.set, seconds)
		}
		under.set = nil
	}
	for _, set := range []func(time.Time) error{c.SetReadDeadline, c.SetWriteDeadline, c.SetDeadline} {
		check.Must(t, set(at(1)))
		check.Must(t, set(at(2)))
	}
	want()
	for range 2 {
		_, err := c.Write(nil)
		check.Must(t, err)
	}
	want(2)
	check.Must(t, c.SetWriteDeadline(at(3)))
	over := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		over <- err
	}()
	check.Received(t, under.began, "the read")
	want(2)
	check.Must(t, c.SetReadDeadline(at(2)))
	want()
	check.Must(t, c.SetReadDeadline(at(4)))
	want(4)
	check.Must(t, check.Received(t, over, "the end of the read"))
	check.Must(t, c.SetReadDeadline(at(5)))
	want()
}

// TestDeadlinesOverTLS: each deadline is set at once, because TLS writes during a read, too.
func TestDeadlinesOverTLS(t *testing.T) {
	t.Parallel()
	under := &timedConn{changed: make(chan struct{}, 1)}
	s := &Server{}
	c := s.newHTTP1Conn(tls.Server(under, nil), &Peer{})
	for i, set := range []func(time.Time) error{c.SetReadDeadline, c.SetWriteDeadline, c.SetDeadline} {
		check.Must(t, set(time.Unix(int64(i), 0)))
	}
	if len(under.set) != 4 {
		t.Errorf("the deadlines are %v", under.set)
	}
}

package relay_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

func isGoAway(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeGoAway }

func isPing(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypePing && !f.Has(rawhttp2.Ack) }

// lastStream returns the last stream id that a GOAWAY accepts.
func lastStream(f rawhttp2.Frame) uint32 { return binary.BigEndian.Uint32(f.Payload) }

// shutDown stops a relay. The channel receives the error of Shutdown.
func (w *relayed) shutDown() <-chan error {
	stopped := make(chan error, 1)
	go func() { stopped <- w.Shutdown(w.ctx) }()
	return stopped
}

// TestDrain: a drain has two steps (RFC 9113 §6.8). A request that the client sends before it has seen the first GOAWAY
// is served. A request after the second is refused, and may be retried elsewhere.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	c := rawClient(t, w.addr)
	check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(request("/t.T/Echo")...)))) // the connection stays
	check.Must(t, c.Sync())
	stopped := w.shutDown()
	f, err := c.Wait(isGoAway)
	check.Must(t, err)
	if last := lastStream(f); last != 1<<31-1 {
		t.Errorf("the first GOAWAY disowns what is under way: the last stream is %d", last)
	}
	check.Must(t, c.Write(rawhttp2.Headers(3, false, c.Block(request("/t.T/Echo")...)),
		rawhttp2.Data(3, true, rawhttp2.Message([]byte("x")))))
	refused := false
	f, err = c.Wait(func(f rawhttp2.Frame) bool { // sent once the PING is acknowledged
		refused = refused || f.Type == rawhttp2.TypeReset
		return isGoAway(f)
	})
	check.Must(t, err)
	if refused {
		t.Fatal("a request that was under way is refused")
	}
	if last := lastStream(f); last != 3 {
		t.Errorf("the last GOAWAY takes the streams up to %d", last)
	}
	w.h.results(t, 1)
	check.Must(t, c.Write(rawhttp2.Headers(5, true, c.Block(request("/t.T/Echo")...))))
	if r, err := c.WaitResponse(5); err != nil || !r.Reset || r.Code != rawhttp2.RefusedStream {
		t.Errorf("a request after the last GOAWAY: %v, %v", r, err)
	}
	check.Must(t, c.Write(rawhttp2.Data(1, true, nil)))
	check.Must(t, c.WaitClosed())
	check.Must(t, c.Close())
	check.Must(t, check.Received(t, stopped, "the end of Shutdown"))
	for _, r := range w.h.results(t, 2) {
		if r.Code != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestDrainAwaitsItsOwnAnswer: the answer to an earlier PING does not prove that the client has seen the GOAWAY.
func TestDrainAwaitsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Timeouts: relay.Timeouts{KeepAlive: 30 * time.Millisecond}})
	c := rawClient(t, w.addr)
	check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(request("/t.T/Echo")...)))) // the connection stays
	before, err := c.Wait(isPing)
	check.Must(t, err)
	stopped := w.shutDown()
	_, err = c.Wait(isGoAway)
	check.Must(t, err)
	own, err := c.Wait(isPing)
	check.Must(t, err)
	check.Must(t, c.Write(rawhttp2.Pong(before), rawhttp2.Ping(7)))
	f, err := c.Wait(func(f rawhttp2.Frame) bool {
		return isGoAway(f) || f.Type == rawhttp2.TypePing && f.Has(rawhttp2.Ack)
	})
	check.Must(t, err)
	if isGoAway(f) {
		t.Errorf("%v before the client has answered", f)
	}
	check.Must(t, c.Write(rawhttp2.Pong(own)))
	_, err = c.Wait(isGoAway)
	check.Must(t, err)
	check.Must(t, c.Write(rawhttp2.Data(1, true, nil)))
	check.Must(t, c.WaitClosed())
	check.Must(t, c.Close())
	check.Must(t, check.Received(t, stopped, "the end of Shutdown"))
}

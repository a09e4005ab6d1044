package relay_test

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// deepen uses n times 512 bytes of stack.
func deepen(n int) (sum byte) {
	var frame [512]byte
	if n > 0 {
		frame[n%len(frame)] = deepen(n - 1)
	}
	for _, b := range frame {
		sum += b
	}
	return sum
}

// answered opens a connection, and makes one call.
func answered(t *testing.T, addr string) *rawhttp2.Conn {
	t.Helper()
	c, err := rawhttp2.Dial(addr)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = c.Close() })
	check.Must(t, c.Greet())
	check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(request("/t.T/Call")...))))
	_, err = c.WaitResponse(1)
	check.Must(t, err)
	return c
}

// stacks returns the memory of the process's stacks, in bytes.
func stacks() uint64 {
	runtime.GC()
	s := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestIdleConnectionsHaveSmallStacks: however much stack the calls of a connection need, its goroutine has little
// afterwards. It is not parallel, because it measures the process.
//
//nolint:paralleltest // see above
func TestIdleConnectionsHaveSmallStacks(t *testing.T) {
	h := &forwarder{}
	h.onHeaders(func(s *relay.Stream) {
		deepen(100)
		s.Refuse(relay.Status{Code: 7})
	})
	_, addr := serveRelay(t, relay.Config{Shards: 1}, h, nil)
	answered(t, addr)
	const conns = 200
	before := stacks()
	for range conns {
		answered(t, addr)
	}
	if each := (int64(stacks()) - int64(before)) / conns; each > 6<<10 {
		t.Errorf("a connection has %d bytes of stack", each)
	}
}

// TestTurnThatEndsItsGoroutine: a Handler that ends its goroutine does not stop its shard.
func TestTurnThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	h := &forwarder{}
	_, addr := serveRelay(t, relay.Config{Shards: 1}, h, nil)
	ending := make(chan struct{})
	h.onHeaders(func(*relay.Stream) {
		close(ending)
		runtime.Goexit()
	})
	c, err := rawhttp2.Dial(addr)
	check.Must(t, err)
	defer func() { _ = c.Close() }()
	check.Must(t, c.Greet())
	check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(request("/t.T/Call")...))))
	check.Received(t, ending, "the call")
	h.onHeaders(func(s *relay.Stream) { s.Refuse(relay.Status{Code: 7}) })
	answered(t, addr)
}

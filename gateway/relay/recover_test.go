package relay_test

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// panics holds the panics that a relay has reported.
type panics struct {
	mu  sync.Mutex
	all []string
}

func (p *panics) told(where string, v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, fmt.Sprint(where, ": ", v))
}

// want waits for one panic of the given place, and forgets it.
func (p *panics) want(t *testing.T, where string) {
	t.Helper()
	check.Succeeds(t, "the panic to be reported", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.all) != 1 || p.all[0] != where+": boom" {
			return fmt.Errorf("panics: %q", p.all)
		}
		p.all = nil
		return nil
	})

}

// TestHandlerPanics: a panic in any callback of the Handler ends that call with INTERNAL. Its connection stays open.
func TestHandlerPanics(t *testing.T) {
	t.Parallel()
	boom := func() { panic("boom") }
	resumed := func(s *relay.Stream) {
		parked := s.Park()
		go parked.Resume(func(*relay.Stream) { boom() })
	}
	for name, set := range map[string]func(*relayed){
		"Headers": func(w *relayed) { w.h.onHeaders(func(*relay.Stream) { boom() }) },
		"Headers, forwarded": func(w *relayed) {
			w.h.onHeaders(func(s *relay.Stream) { s.Forward(w.h.target()); boom() })
		},
		"Headers, parked": func(w *relayed) { w.h.onHeaders(func(s *relay.Stream) { s.Park(); boom() }) },
		"Message": func(w *relayed) {
			w.h.onHeaders(func(s *relay.Stream) { s.ReadMessage() })
			w.h.onMessage(func(*relay.Stream, relay.Message) { boom() })
		},
		"Resume": func(w *relayed) { w.h.onHeaders(resumed) },
		"Unsent": func(w *relayed) {
			up := w.NewUpstream(relay.UpstreamConfig{Addr: check.ClosedPort(t)})
			w.h.onHeaders(func(s *relay.Stream) { s.Forward(up) })
			w.h.onUnsent(func(*relay.Stream, error) { boom() })
		},
		"tap": func(w *relayed) {
			w.h.onHeaders(func(s *relay.Stream) { s.TapResponse(tapFunc(boom)); s.Forward(w.h.target()) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := &panics{}
			w := newRelayed(t, relay.Config{Shards: 1, Panicked: told.told})
			other := stream(w.ctx, t, w.cc, "Echo")
			check.Must(t, send(other, []byte("a")))
			_, err := recv(other)
			check.Must(t, err)
			set(w)
			if _, err := unary(w.ctx, w.cc, "Echo", []byte("x")); status.Code(err) != codes.Internal {
				t.Errorf("the call ended with %v", err)
			}
			told.want(t, "relay handler")
			w.h.onHeaders(nil)
			w.h.onMessage(nil)
			check.Must(t, send(other, []byte("b")))
			if _, err := recv(other); err != nil {
				t.Errorf("another call of the connection: %v", err)
			}
			if _, err := unary(w.ctx, w.cc, "Echo", []byte("y")); err != nil {
				t.Errorf("the next call: %v", err)
			}
			check.Must(t, other.CloseSend())
			if done := w.h.results(t, 3); len(done) != 3 {
				t.Errorf("%d calls are done", len(done))
			}
		})
	}
}

type tapFunc func()

func (f tapFunc) Body([]byte) { f() }

// TestDonePanics: a panic in Done has no further effect.
func TestDonePanics(t *testing.T) {
	t.Parallel()
	told := &panics{}
	h := &donePanics{forwarder: &forwarder{}}
	r, addr := serveRelay(t, relay.Config{Panicked: told.told}, h, nil)
	h.to(r.NewUpstream(relay.UpstreamConfig{Addr: newBackend(t).addr}))
	cc := dialRaw(t, addr)
	for range 3 {
		if _, err := unary(t.Context(), cc, "Echo", []byte("x")); err != nil {
			t.Fatal(err)
		}
		told.want(t, "relay handler")
	}
}

type donePanics struct{ *forwarder }

func (donePanics) Done(*relay.Stream, *relay.Result) { panic("boom") }

// TestShardPanics: a panic in the relay's own code closes the connections of its shard and reports each of their calls
// as INTERNAL once. The shard accepts new connections, and the other shard is not affected.
func TestShardPanics(t *testing.T) {
	t.Parallel()
	told := &panics{}
	w := newRelayed(t, relay.Config{
		Shards:   2,
		Panicked: told.told,
		Forwarding: relay.Forwarding{OmitHeader: func(name string) bool {
			if name == "x-boom" {
				panic("boom")
			}
			return false
		}},
	})
	var shard atomic.Int64
	w.h.onHeaders(func(s *relay.Stream) {
		shard.Store(int64(s.Shard()))
		s.Forward(w.h.target())
	})
	on := func(want int64) *grpc.ClientConn { // returns a client of a given shard
		for {
			cc := dialRaw(t, w.addr)
			if _, err := unary(w.ctx, cc, "Echo", nil); err != nil {
				t.Fatal(err)
			}
			if shard.Load() == want {
				return cc
			}
		}
	}
	echo := func(s grpc.ClientStream) error {
		if err := send(s, []byte("a")); err != nil {
			return err
		}
		_, err := recv(s)
		return err
	}
	kept := stream(w.ctx, t, on(0), "Echo")
	check.Must(t, echo(kept))
	for round := range 3 { // the shard is reused, and fails again
		cc := on(1)
		lost := stream(w.ctx, t, cc, "Echo")
		check.Must(t, echo(lost))
		ctx := metadata.AppendToOutgoingContext(w.ctx, "x-boom", "1")
		if _, err := unary(ctx, cc, "Echo", []byte("x")); status.Code(err) != codes.Unavailable {
			t.Errorf("round %d: the call ended with %v", round, err)
		}
		told.want(t, "relay shard")
		if _, err := recv(lost); status.Code(err) != codes.Unavailable {
			t.Errorf("round %d: its neighbour ended with %v", round, err)
		}
		if err := echo(kept); err != nil {
			t.Fatalf("round %d: the other shard: %v", round, err)
		}
		if _, err := unary(w.ctx, cc, "Echo", []byte("y")); err != nil { // over a new connection
			t.Errorf("round %d: the next call: %v", round, err)
		}
	}
	check.Must(t, kept.CloseSend())
	if _, err := recv(kept); !errors.Is(err, io.EOF) {
		t.Errorf("the other shard's stream ended with %v", err)
	}
	check.Succeeds(t, "the streams to end", func() error {
		if u := w.Usage(); u.Streams != 0 {
			return fmt.Errorf("left: %+v", u)
		}
		return nil
	})

	w.Close() // must return
	broken := 0
	for _, r := range w.h.results(t, 1) {
		if r.Failure == relay.Panicked {
			broken++
		}
	}
	if broken != 3 { // the calls that caused the panics never began
		t.Errorf("%d calls were reported as ended by a panic, not 3", broken)
	}
}

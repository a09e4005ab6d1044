package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestMessageLimit: the first message over the limit ends the stream, in both directions, unless the Handler lets it
// continue.
func TestMessageLimit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sends, gets int
		let         bool
		code        codes.Code
	}{
		"as many as it may":    {5, 5, false, codes.OK},
		"a request too many":   {6, 0, false, codes.ResourceExhausted},
		"a response too many":  {1, 6, false, codes.ResourceExhausted},
		"many, where it may":   {9, 9, true, codes.OK},
		"nothing in a message": {6, 0, false, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := 70_000 // more than a window
			if name == "nothing in a message" {
				size = 0
			}
			w := newRelayed(t, relay.Config{})
			w.h.onHeaders(func(s *relay.Stream) {
				s.Limit(relay.Limits{Messages: 5})
				s.Forward(w.h.target())
			})
			set(w.h, &w.h.let, test.let)
			if err := exchange(t, w, test.sends, test.gets, size); status.Code(err) != test.code {
				t.Errorf("%v, want %v", err, test.code)
			}
			if r := w.h.results(t, 1)[0]; codes.Code(r.Code) != test.code ||
				(test.code != codes.OK) != (r.Failure == relay.TooManyMessages) {
				t.Errorf("%+v", r)
			}
			check.Succeeds(t, "the relay to hold nothing", func() error { return emptyHanded(w.Relay) })
		})
	}
}

// TestLimitOfWhatHasCome: messages received before the limit was set count.
func TestLimitOfWhatHasCome(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	parked := make(chan relay.Parked, 1)
	w.h.onHeaders(func(s *relay.Stream) { parked <- s.Park() })
	c := rawClient(t, w.addr)
	message := rawhttp2.Message([]byte("early"))
	check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(request("/t.T/Collect")...)),
		rawhttp2.Data(1, false, append(message, message...))))
	check.Must(t, c.Sync())
	check.Received(t, parked, "the parked call").Resume(func(s *relay.Stream) {
		s.Limit(relay.Limits{Messages: 1})
		s.Forward(w.h.target())
	})
	check.Must(t, c.Write(rawhttp2.Data(1, true, nil)))
	if r, err := c.WaitResponse(1); err != nil || r.Status() != "8" {
		t.Errorf("%v, %v", r, err)
	}
}

// exchange sends messages, or requests messages from the backend if gets is larger than sends.
func exchange(t *testing.T, w *relayed, sends, gets, size int) error {
	t.Helper()
	if gets > sends {
		s := stream(w.ctx, t, w.cc, "Count")
		if err := send(s, fmt.Appendf(nil, "%d %d", gets, size)); err != nil {
			return err
		}
		_ = s.CloseSend()
		return drainStream(s)
	}
	s := stream(w.ctx, t, w.cc, "Collect")
	for range sends {
		if err := send(s, make([]byte, size)); err != nil {
			break // recv returns the reason
		}
	}
	_ = s.CloseSend()
	return drainStream(s)
}

func drainStream(s grpc.ClientStream) error {
	for {
		if _, err := recv(s); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestByteLimit: the bytes of messages count with their prefixes, each direction for itself.
func TestByteLimit(t *testing.T) {
	t.Parallel()
	const most = 300_000
	for name, test := range map[string]struct {
		size int
		code codes.Code
	}{
		"as much as it may": {most - 5, codes.OK},
		"a byte too much":   {most - 4, codes.ResourceExhausted},
		"far too much":      {10 * most, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			w.h.onHeaders(func(s *relay.Stream) {
				s.Limit(relay.Limits{Bytes: most})
				s.Forward(w.h.target())
			})
			if _, err := unary(w.ctx, w.cc, "Echo", make([]byte, test.size)); status.Code(err) != test.code {
				t.Errorf("sent: %v, want %v", err, test.code)
			}
			s := stream(w.ctx, t, w.cc, "Count")
			check.Must(t, send(s, fmt.Appendf(nil, "1 %d", test.size)))
			_ = s.CloseSend()
			if err := drainStream(s); status.Code(err) != test.code {
				t.Errorf("got: %v, want %v", err, test.code)
			}
			check.Succeeds(t, "the relay to hold nothing", func() error { return emptyHanded(w.Relay) })
		})
	}
}

// TestRate: the members of a group together stay below its rate, however many streams and connections they have. All
// bytes arrive, and streams without a group do not wait.
func TestRate(t *testing.T) {
	t.Parallel()
	const rate, streams, size = 4 << 20, 8, 1 << 20
	w := newRelayed(t, relay.Config{})
	var slowed atomic.Int64
	g := w.NewGroup(func() { slowed.Add(1) }, nil)
	g.SetRate(rate, false)
	w.h.onHeaders(func(s *relay.Stream) {
		if _, free := s.Header("free"); !free {
			s.Join(g)
		}
		s.Forward(w.h.target())
	})
	began := time.Now()
	var all sync.WaitGroup
	for i := range streams {
		cc := dialRaw(t, w.addr)
		all.Go(func() {
			if i%2 == 0 {
				s := stream(w.ctx, t, cc, "Count")
				_ = send(s, fmt.Appendf(nil, "1 %d", size))
				_ = s.CloseSend()
				if got, err := recv(s); err != nil || len(got) != size {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				return
			}
			s := stream(w.ctx, t, cc, "Echo")
			if err := send(s, pattern(i, size/2)); err != nil {
				t.Error(err)
			}
			if got, err := recv(s); err != nil || !bytes.Equal(got, pattern(i, size/2)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			_ = s.CloseSend()
		})
	}
	all.Wait()
	// At once there may pass a quarter of a second's bytes, and each stream's window in both directions.
	least := time.Second * (streams*size - rate/4 - streams*2*65535) / rate
	if took := time.Since(began); took < least {
		t.Errorf("%d bytes took %v, and should have taken %v at the least", streams*size, took, least)
	}
	if n := slowed.Load(); n < 1 || n > streams {
		t.Errorf("%d streams of %d had to wait", n, streams)
	}
	check.Succeeds(t, "the relay to hold nothing", func() error { return emptyHanded(w.Relay) })
}

// TestSlowGroupEnds: streams that wait for their rate end at their deadline, when their client leaves, and when the
// relay stops. Other streams of the same connection do not wait.
func TestSlowGroupEnds(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Shards: 1})
	g := w.NewGroup(nil, nil)
	g.SetRate(1000, false)
	w.h.onHeaders(func(s *relay.Stream) {
		if _, slow := s.Header("slow"); slow {
			s.Join(g)
		}
		if _, late := s.Header("late"); late {
			s.SetDeadline(300 * time.Millisecond) // a client's own could pass before its call begins
		}
		s.Forward(w.h.target())
	})
	var all sync.WaitGroup
	for _, late := range []bool{true, false} {
		for range 5 {
			ctx, leave := withHeader(w.ctx, "slow", "1")
			if late {
				ctx = metadata.AppendToOutgoingContext(ctx, "late", "1")
			}
			s := stream(ctx, t, w.cc, "Echo")
			all.Go(func() {
				defer leave()
				for send(s, make([]byte, 100_000)) == nil {
				}
				if !late {
					return // ended by the end of the test
				}
				if err := drainStream(s); status.Code(err) != codes.DeadlineExceeded {
					t.Error(err)
				}
			})
			if !late {
				time.AfterFunc(100*time.Millisecond, leave)
			}
		}
	}
	for range 20 {
		if got, err := unary(w.ctx, w.cc, "Echo", pattern(1, 300_000)); err != nil || len(got) != 300_000 {
			t.Error(len(got), err)
		}
	}
	all.Wait()
	check.Succeeds(t, "the relay to hold nothing", func() error { return emptyHanded(w.Relay) })
	if behind := g.Behind(); behind <= 0 || behind > 10*time.Duration(2*65535+5)*time.Millisecond {
		t.Errorf("the group is behind by %v", behind)
	}
	g.SetRate(0, false)
	if behind := g.Behind(); behind != 0 {
		t.Errorf("without a rate the group is behind by %v", behind)
	}
}

// TestShadowIsForgotten: bytes that passed in shadow mode, or at a lower rate, are not held against a group later.
func TestShadowIsForgotten(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	g := w.NewGroup(nil, nil)
	g.SetRate(1000, true)
	w.h.onHeaders(func(s *relay.Stream) {
		s.Join(g)
		s.Forward(w.h.target())
	})
	if _, err := unary(w.ctx, w.cc, "Echo", make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	g.SetRate(1000, false)
	if behind := g.Behind(); behind > 3*time.Second {
		t.Errorf("%v behind, of what was not held up", behind)
	}
	g.SetRate(1e9, false)
	if behind := g.Behind(); behind > 10*time.Millisecond {
		t.Errorf("%v behind at a rate at which it takes no time", behind)
	}
}

// TestGroupsShareMemory: a group that does not read leaves memory for others.
func TestGroupsShareMemory(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Memory: relay.Memory{MaxBuffered: 2 << 20}, Shards: 1})
	groups := map[string]*relay.Group{"greedy": w.NewGroup(nil, nil), "modest": w.NewGroup(nil, nil)}
	w.h.onHeaders(func(s *relay.Stream) {
		if name, ok := s.Header("group"); ok {
			s.Join(groups[name])
		}
		s.Forward(w.h.target())
	})
	slow := dialRaw(t, w.addr, grpc.WithInitialWindowSize(65535), grpc.WithInitialConnWindowSize(65535))
	open := func(name string, n int) (calls []grpc.ClientStream) {
		for range n {
			ctx, leave := withHeader(w.ctx, "group", name)
			check.Cleanup(t, leave)
			s := stream(ctx, t, slow, "Count")
			check.Must(t, send(s, []byte("4 100000")))
			check.Must(t, s.CloseSend())
			calls = append(calls, s)
		}
		return calls
	}
	greedy := open("greedy", 60)
	held(t, w.Relay)
	modest := open("modest", 3)
	held(t, w.Relay)
	for _, s := range modest {
		if err := drainStream(s); err != nil {
			t.Errorf("a call of a client that holds few bytes: %v", err)
		}
	}
	ended := 0
	for _, s := range greedy {
		if drainStream(s) != nil {
			ended++
		}
	}
	if ended == 0 || ended == len(greedy) {
		t.Errorf("%d calls of %d were ended of who holds too much", ended, len(greedy))
	}
	check.Succeeds(t, "the relay to hold nothing", func() error { return emptyHanded(w.Relay) })
}

// withHeader returns a context with a header.
func withHeader(ctx context.Context, name, value string) (context.Context, context.CancelFunc) {
	return context.WithCancel(metadata.AppendToOutgoingContext(ctx, name, value))
}

package relay_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
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

// Explain returns a status with the failure's name.
func (f *forwarder) Explain(s *relay.Stream, why relay.Failure) relay.Status {
	code := codes.Unavailable
	switch why {
	case relay.DeadlineExceeded:
		code = codes.DeadlineExceeded
	case relay.UpstreamReset, relay.UpstreamNotGRPC:
		code = codes.Code(s.ResetCode())
	case relay.MessageTooLarge, relay.MemoryExceeded, relay.TooManyBytes, relay.TooManyMessages:
		code = codes.ResourceExhausted
	case relay.Panicked:
		code = codes.Internal
	case relay.MessageMalformed:
		code = codes.InvalidArgument
	}
	text := "relay: " + why.String()
	if why == relay.UpstreamLost && !s.Sent() {
		text += ", not sent"
	}
	return relay.Status{Code: uint32(code), Message: text}
}

// TestBackendKilled: when a backend is killed during its calls, none of them is OK and none is sent to another backend.
func TestBackendKilled(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	other := newBackend(t)
	spare := w.NewUpstream(relay.UpstreamConfig{Addr: other.addr})
	w.h.onUnsent(func(s *relay.Stream, _ error) { s.Forward(spare) })
	const calls = 20
	errs := make(chan error, 2*calls)
	for i := range calls {
		ctx := metadata.AppendToOutgoingContext(w.ctx, "x-call-id", fmt.Sprint(i))
		go func() {
			_, err := unary(ctx, w.cc, "Hold", pattern(i, 100))
			errs <- err
		}()
		check.Received(t, w.back.started, "the start of the call at the backend")
	}
	for i := range calls {
		ctx := metadata.AppendToOutgoingContext(w.ctx, "x-call-id", fmt.Sprint(calls+i))
		s := stream(ctx, t, w.cc, "Echo")
		check.Must(t, send(s, pattern(i, 1000)))
		if _, err := recv(s); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := recv(s)
			errs <- err
		}()
	}
	go w.back.srv.Stop()
	for range 2 * calls {
		if err := check.Received(t, errs, "the error"); status.Code(err) != codes.Unavailable {
			t.Errorf("ended with %v", err)
		}
	}
	close(w.back.release)
	for i := range 2 * calls {
		if id := fmt.Sprint(i); w.back.count(id) != 1 || other.count(id) != 0 {
			t.Errorf("call %s was delivered %d and %d times", id, w.back.count(id), other.count(id))
		}
	}
	for _, r := range w.h.results(t, 2*calls) {
		if r.Failure != relay.UpstreamLost || r.Code != uint32(codes.Unavailable) || r.Upstream {
			t.Errorf("result %+v", r)
		}
	}
}

// TestSocketCloses closes the backend's socket at every point of a call.
func TestSocketCloses(t *testing.T) {
	t.Parallel()
	head := func(p rawPeer, id uint32) rawhttp2.Frame {
		return rawhttp2.Headers(id, false, p.Block(":status", "200", "content-type", "application/grpc"))
	}
	cases := map[string]struct {
		say  func(p rawPeer, id uint32) []rawhttp2.Frame
		msgs int
	}{
		"before the headers": {func(rawPeer, uint32) []rawhttp2.Frame { return nil }, 0},
		"after the headers":  {func(p rawPeer, id uint32) []rawhttp2.Frame { return []rawhttp2.Frame{head(p, id)} }, 0},
		"inside a message": {func(p rawPeer, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{head(p, id), rawhttp2.Data(id, false, rawhttp2.Message(pattern(0, 100))[:50])}
		}, 0},
		"after a message": {func(p rawPeer, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{head(p, id), rawhttp2.Data(id, false, rawhttp2.Message(pattern(0, 100)))}
		}, 1},
		"after an end without a status": {func(p rawPeer, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{head(p, id), rawhttp2.Data(id, true, rawhttp2.Message(pattern(0, 100)))}
		}, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			raw := w.rawBackend(t)
			w.h.onUnsent(func(s *relay.Stream, err error) {
				t.Errorf("Unsent: %v", err)
				s.Refuse(relay.Status{Code: 2})
			})
			s := stream(w.ctx, t, w.cc, "Echo")
			check.Must(t, send(s, pattern(0, 100)))
			check.Must(t, s.CloseSend())
			p := raw.accept(t)
			id := p.head(t)
			p.body(t, id)
			check.Must(t, p.Write(c.say(p, id)...))
			check.Must(t, p.Close())
			for range c.msgs {
				if got, err := recv(s); err != nil || !bytes.Equal(got, pattern(0, 100)) {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
			}
			if _, err := recv(s); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// load makes calls until it is stopped, and returns their number.
func (w *relayed) load(t *testing.T, prefix string, stop chan struct{}) int {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return n
		default:
		}
		ctx := metadata.AppendToOutgoingContext(w.ctx, "x-call-id", fmt.Sprint(prefix, n))
		if n%5 == 4 {
			s := stream(ctx, t, w.cc, "Echo")
			for i := range 5 {
				check.Must(t, send(s, pattern(i, 3000)))
				if got, err := recv(s); err != nil || !bytes.Equal(got, pattern(i, 3000)) {
					t.Errorf("stream %s%d: %v; got %+v", prefix, n, err, got)
					return n + 1
				}
			}
			check.Must(t, s.CloseSend())
			if _, err := recv(s); !errors.Is(err, io.EOF) {
				t.Errorf("stream %s%d: %v", prefix, n, err)
			}
			continue
		}
		if _, err := unary(ctx, w.cc, "Echo", pattern(n, 100)); err != nil {
			t.Errorf("call %s%d: %v", prefix, n, err)
			return n + 1
		}
	}
}

// TestGracefulStop: while backends are replaced under load, no call fails and none is delivered twice.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{false, true} {
		t.Run(fmt.Sprintf("same address %v", same), func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			var current atomic.Pointer[relay.Upstream]
			current.Store(w.h.target())
			w.h.onHeaders(func(s *relay.Stream) { s.Forward(current.Load()) })
			w.h.onUnsent(func(s *relay.Stream, _ error) {
				p := s.Park() // the new backend may not be there yet
				time.AfterFunc(2*time.Millisecond, func() {
					p.Resume(func(s *relay.Stream) { s.Forward(current.Load()) })
				})
			})
			stop := make(chan struct{})
			counts := make([]int, 8)
			var all sync.WaitGroup
			for i := range counts {
				all.Go(func() { counts[i] = w.load(t, fmt.Sprint(i, "-"), stop) })
			}
			backends := []*backend{w.back}
			for range 5 {
				old := backends[len(backends)-1]
				w.h.results(t, len(w.h.results(t, 0))+200) // let the new backend serve for a while
				ln := check.Listen(t)
				if same {
					_ = ln.Close()
					go old.srv.GracefulStop()
					check.Succeeds(t, "the port of the backend to be free",
						func() (err error) { ln, err = net.Listen("tcp", old.addr); return err })
					backends = append(backends, serveBackend(t, ln))
					continue
				}
				backends = append(backends, serveBackend(t, ln))
				before := current.Swap(w.NewUpstream(relay.UpstreamConfig{Addr: ln.Addr().String()}))
				go old.srv.GracefulStop()
				before.Close()
			}
			w.h.results(t, len(w.h.results(t, 0))+200)
			close(stop)
			check.Ended(t, &all, "the calls")
			for i, n := range counts {
				for j := range n {
					delivered := 0
					for _, b := range backends {
						delivered += b.count(fmt.Sprint(i, "-", j))
					}
					if delivered != 1 {
						t.Fatalf("call %d-%d was delivered %d times", i, j, delivered)
					}
				}
			}
		})
	}
}

// TestGoAwayBelow: streams above the last id of a GOAWAY are sent again on a new connection, from their beginning.
func TestGoAwayBelow(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	raw := w.rawBackend(t)
	w.h.onUnsent(func(s *relay.Stream, err error) {
		if !errors.Is(err, relay.ErrGoAway) {
			t.Errorf("Unsent: %v", err)
		}
		s.Forward(w.h.target())
	})
	var calls []grpc.ClientStream
	for i := range 3 {
		calls = append(calls, stream(w.ctx, t, w.cc, "Echo"))
		check.Must(t, send(calls[i], pattern(i, 1000)))
	}
	p := raw.accept(t)
	ids := []uint32{p.head(t), p.head(t), p.head(t)}
	check.Must(t, p.Write(rawhttp2.GoAway(ids[0], 0)))
	q := raw.accept(t)
	for _, s := range calls {
		check.Must(t, send(s, []byte("more")))
		check.Must(t, s.CloseSend())
	}
	p.reply(t, ids[0], rawhttp2.Message([]byte("old")))
	if got, err := recv(calls[0]); err != nil || string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	seen := map[string]bool{}
	for id, body := range q.bodies(t, 2) {
		seen[string(body)] = true
		q.reply(t, id, body[:1005])
	}
	for i := 1; i < 3; i++ {
		want := append(rawhttp2.Message(pattern(i, 1000)), rawhttp2.Message([]byte("more"))...)
		if !seen[string(want)] {
			t.Errorf("request %d is not whole", i)
		}
		if got, err := recv(calls[i]); err != nil || !bytes.Equal(got, pattern(i, 1000)) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// TestRefusedStream: a stream that a backend refuses is sent to another one, from its beginning.
func TestRefusedStream(t *testing.T) {
	t.Parallel()
	for name, prepare := range handlers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			prepare(w.h)
			spare := w.h.target()
			unsent := make(chan struct{})
			raw := w.rawBackend(t)
			w.h.onUnsent(func(s *relay.Stream, err error) {
				if !errors.Is(err, relay.ErrRefused) {
					t.Errorf("Unsent: %v", err)
				}
				s.SetHeader("x-try", "2")
				s.Forward(spare)
				close(unsent)
			})
			s := stream(metadata.AppendToOutgoingContext(w.ctx, "x-call-id", "1"), t, w.cc, "Collect")
			check.Must(t, send(s, pattern(1, 20_000)))
			p := raw.accept(t)
			id := p.head(t)
			_, err := p.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeData })
			check.Must(t, err)
			check.Must(t, p.Write(rawhttp2.Reset(id, 7)))
			check.Received(t, unsent, "the call to be refused unsent")
			check.Must(t, send(s, pattern(2, 200_000))) // more than the relay keeps for a retry
			check.Must(t, s.CloseSend())
			want := append(pattern(1, 20_000), pattern(2, 200_000)...)
			if got, err := recv(s); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if n, try := w.back.count("1"), w.back.lastMD().Get("x-try"); n != 1 || try[0] != "2" {
				t.Errorf("delivered %d times, at last by try %v", n, try)
			}
		})
	}
}

// TestRefusedTooLate: a refused stream that the relay has not kept whole ends as not sent.
func TestRefusedTooLate(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(id uint32) rawhttp2.Frame{
		"REFUSED_STREAM": func(id uint32) rawhttp2.Frame { return rawhttp2.Reset(id, 7) },
		"GOAWAY":         func(uint32) rawhttp2.Frame { return rawhttp2.GoAway(0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{Forwarding: relay.Forwarding{MaxReplay: 1000}})
			raw := w.rawBackend(t)
			w.h.onUnsent(func(s *relay.Stream, err error) {
				t.Errorf("Unsent: %v", err)
				s.Refuse(relay.Status{Code: 2})
			})
			ended := make(chan error, 1)
			go func() {
				_, err := unary(w.ctx, w.cc, "Echo", pattern(0, 2000))
				ended <- err
			}()
			p := raw.accept(t)
			id := p.head(t)
			p.body(t, id)
			check.Must(t, p.Write(say(id)))
			st := status.Convert(check.Received(t, ended, "the end of the call"))
			if st.Message() != "relay: UPSTREAM_LOST, not sent" {
				t.Errorf("ended with %v", st)
			}
		})
	}
}

// TestNobodyThere: calls to an unreachable backend end at once if it refuses or closes the connection, and at the dial
// timeout otherwise.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	deaf := check.Listen(t)
	go func() { // accepts connections and closes them
		for {
			nc, err := deaf.Accept()
			if err != nil {
				return
			}
			_ = nc.Close()
		}
	}()
	check.Cleanup(t, func() { _ = deaf.Close() })
	silent := check.Listen(t) // accepts connections and sends nothing
	check.Cleanup(t, func() { _ = silent.Close() })
	for name, cfg := range map[string]relay.UpstreamConfig{
		"refused": {Addr: check.ClosedPort(t), DialTimeout: time.Hour},
		"deaf":    {Addr: deaf.Addr().String(), DialTimeout: time.Hour},
		"silent":  {Addr: silent.Addr().String(), DialTimeout: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			w.h.to(w.NewUpstream(cfg))
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					_, err := unary(w.ctx, w.cc, "Echo", nil)
					if s := status.Convert(err); s.Code() != codes.Unavailable ||
						!bytes.HasPrefix([]byte(s.Message()), []byte("unsent: ")) {
						t.Errorf("%v", err)
					}
				})
			}
			check.Ended(t, &all, "the calls")
		})
	}
}

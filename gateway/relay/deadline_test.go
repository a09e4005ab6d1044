package relay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// capped forwards with the sooner of d and the client's deadline.
func (f *forwarder) capped(d time.Duration) {
	f.onHeaders(func(s *relay.Stream) {
		d := d
		if asked, ok := s.Timeout(); ok {
			d = min(d, asked)
		}
		s.SetDeadline(d)
		s.Forward(f.target())
	})
}

// TestDeadlineToldUpstream: the backend gets the remaining time.
func TestDeadlineToldUpstream(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		asked, limit time.Duration // 0 means none
		most         time.Duration
	}{
		"client's":       {asked: 20 * time.Second, limit: time.Hour, most: 20 * time.Second},
		"capped":         {asked: time.Hour, limit: 10 * time.Second, most: 10 * time.Second},
		"only the cap":   {limit: 10 * time.Second, most: 10 * time.Second},
		"not interfered": {asked: 20 * time.Second, most: 20 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type timeout struct {
				left     time.Duration
				deadline time.Time
			}
			told := make(chan timeout, 1)
			w := newRelayed(t, relay.Config{Forwarding: relay.Forwarding{DeadlineMargin: 50 * time.Millisecond}},
				grpc.StreamInterceptor(
					func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
						deadline, _ := ss.Context().Deadline()
						told <- timeout{time.Until(deadline), deadline}
						return next(srv, ss)
					}))
			margin := time.Duration(0)
			if c.limit > 0 {
				w.h.capped(c.limit)
				margin = 50 * time.Millisecond
			}
			const rounding = 10 * time.Millisecond // grpc-timeout is rounded to its unit
			earliest := time.Now().Add(c.most - margin - rounding)
			ctx, cancel := context.Background(), func() {}
			if c.asked > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.asked)
			}
			defer cancel()
			if _, err := unary(ctx, w.cc, "Echo", nil); err != nil {
				t.Fatal(err)
			}
			// The header has the remaining time, so a slow machine makes the backend's deadline later, never earlier.
			got := check.Received(t, told, "the notice")
			if got.left > c.most-margin {
				t.Errorf("the backend has %v of %v", got.left, c.most)
			}
			if early := earliest.Sub(got.deadline); early > 0 {
				t.Errorf("the backend's deadline is %v too early", early)
			}
		})
	}
}

// TestDeadlinePasses: calls end at their deadlines, in whatever state they are. TestMachine checks in virtual time that
// they end soon.
func TestDeadlinePasses(t *testing.T) {
	t.Parallel()
	const limit = 60 * time.Millisecond
	forward := func(f *forwarder) func(*relay.Stream) {
		return func(s *relay.Stream) { s.SetDeadline(limit); s.Forward(f.target()) }
	}
	cases := map[string]struct {
		method  string
		headers func(*forwarder) func(*relay.Stream)
	}{
		"backend ignores it": {"Hold", forward},
		"backend obeys":      {"Wait", forward},
		"parked": {"Echo", func(*forwarder) func(*relay.Stream) {
			return func(s *relay.Stream) { s.SetDeadline(limit); s.Park() }
		}},
		"message missing": {"Echo", func(*forwarder) func(*relay.Stream) {
			return func(s *relay.Stream) { s.SetDeadline(limit); s.ReadMessage() }
		}},
		"set after ReadMessage": {"Echo", func(*forwarder) func(*relay.Stream) {
			return func(s *relay.Stream) { s.ReadMessage(); s.SetDeadline(limit) }
		}},
		"no connection": {"Echo", func(f *forwarder) func(*relay.Stream) {
			return func(s *relay.Stream) { s.SetDeadline(limit); s.Forward(f.target()) }
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			defer close(w.back.release)
			if name == "no connection" { // the socket is open, but the backend sends no SETTINGS
				ln := check.Listen(t)
				check.Cleanup(t, func() { _ = ln.Close() }) // a reference that keeps the listener from being collected
				w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: ln.Addr().String()}))
			}
			calls := 1
			if c.method == "Wait" { // its deadline must not pass before the connection exists
				_, err := unary(w.ctx, w.cc, "Echo", nil)
				check.Must(t, err)
				calls++
			}
			w.h.onHeaders(c.headers(w.h))
			began := time.Now()
			s := stream(t.Context(), t, w.cc, c.method) // sends no message, and has no deadline of its own
			ended := make(chan error, 1)
			go func() {
				_, err := recv(s)
				ended <- err
			}()
			if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.DeadlineExceeded {
				t.Fatalf("%v", err)
			}
			if took := time.Since(began); took < limit-shardTick {
				t.Errorf("after %v", took)
			}
			done := w.h.results(t, calls)[calls-1]
			if done.Code != uint32(codes.DeadlineExceeded) || !done.Upstream && done.Failure != relay.DeadlineExceeded {
				t.Errorf("result %+v", done)
			}
			if c.method == "Wait" {
				if err := check.Received(t, w.back.left, "the end of the call at the backend"); err == nil {
					t.Error("the backend does not know")
				}
			}
		})
	}
}

// TestMalformedTimeout: a malformed grpc-timeout counts as 0.
func TestMalformedTimeout(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	got := make(chan time.Duration, 1)
	w.h.onHeaders(func(s *relay.Stream) {
		d, ok := s.Timeout()
		if !ok {
			d = -1
		}
		got <- d
		s.Reply(nil)
	})
	for value, want := range map[string]time.Duration{"": -1, "5x": 0, "0S": 0, "1S": time.Second, "99999999H": 0,
		"123456789S": 0, "-1S": 0, "007m": 7 * time.Millisecond} {
		fields := request("/t.T/Echo")
		if value != "" {
			fields = append(fields, "grpc-timeout", value)
		}
		c := rawClient(t, w.addr)
		writeBlock(t, c, 1, c.Block(fields...))
		if d := check.Received(t, got, "the result"); d != want && !(strings.HasSuffix(value, "H") &&
			d > 10000*time.Hour) {
			t.Errorf("%q: %v, not %v", value, d, want)
		}
		_ = c.Close()
	}
}

// TestCancel: if the client cancels, the backend learns of it, whatever the call waits for.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, prepare := range handlers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			prepare(w.h)
			ctx, cancel := context.WithCancel(w.ctx)
			s := stream(ctx, t, w.cc, "Wait")
			check.Must(t, send(s, nil))
			check.Received(t, w.back.started, "the start of the call at the backend")
			cancel()
			if err := check.Received(t, w.back.left, "the end of the call at the backend"); err != context.Canceled {
				t.Errorf("the backend sees %v", err)
			}
			done := w.h.results(t, 1)[0]
			if done.Code != uint32(codes.Canceled) || done.Failure != relay.ClientGone || done.Upstream {
				t.Errorf("result %+v", done)
			}
		})
	}
}

// TestCancelUnstarted: a call is canceled before any backend has received it.
func TestCancelUnstarted(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(*forwarder, *relay.Stream){
		"reading": func(_ *forwarder, s *relay.Stream) { s.ReadMessage() },
		"parked":  func(_ *forwarder, s *relay.Stream) { s.Park() },
		"queued":  func(f *forwarder, s *relay.Stream) { s.Forward(f.target()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			silent := check.Listen(t)
			w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: silent.Addr().String()}))
			asked := make(chan struct{}, 1)
			w.h.onHeaders(func(s *relay.Stream) { wait(w.h, s); asked <- struct{}{} })
			ctx, cancel := context.WithCancel(w.ctx)
			_ = stream(ctx, t, w.cc, "Echo")
			check.Received(t, asked, "the question")
			cancel()
			if done := w.h.results(t, 1)[0]; done.Failure != relay.ClientGone || done.Forwarded != 0 {
				t.Errorf("result %+v", done)
			}
			check.Succeeds(t, "one client to be held", func() error {
				return wantUsage(w.Relay, relay.Usage{Clients: 1})
			})
		})
	}
}

// TestBackendCancels: the relay passes a backend's reset on to the client.
func TestBackendCancels(t *testing.T) {
	t.Parallel()
	for code, want := range map[uint32]codes.Code{8: codes.Canceled, 2: codes.Internal, 11: codes.ResourceExhausted} {
		t.Run(want.String(), func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			raw := w.rawBackend(t)
			s := stream(w.ctx, t, w.cc, "Echo")
			b := raw.accept(t)
			id := b.head(t)
			check.Must(t, b.Write(rawhttp2.Reset(id, code)))
			if _, err := recv(s); status.Code(err) != want {
				t.Errorf("%v", err)
			}
			if done := w.h.results(t, 1)[0]; done.Code != uint32(want) || !done.Upstream {
				t.Errorf("result %+v", done)
			}
		})
	}
}

// TestLeftWithoutDeadline: the remaining time of a call without a deadline is unlimited.
func TestLeftWithoutDeadline(t *testing.T) {
	t.Parallel()
	left := make(chan [2]time.Duration, 1)
	w := newRelayed(t, relay.Config{})
	w.h.onHeaders(func(s *relay.Stream) {
		without := s.Left()
		s.SetDeadline(time.Hour)
		left <- [2]time.Duration{without, s.Left()}
		s.Forward(w.h.target())
	})
	if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil {
		t.Fatal(err)
	}
	if got := check.Received(t, left, "the time that is left"); got[0] < 24*365*time.Hour || got[1] > time.Hour ||
		got[1] < time.Minute {
		t.Errorf("%v", got)
	}
}

// TestNow: the time of a stream is that of its turn, also after a wait.
func TestNow(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	const wait = 5 * time.Millisecond
	w.h.onHeaders(func(s *relay.Stream) {
		began := s.Now()
		if began.Before(s.Started()) || began.After(time.Now()) {
			t.Errorf("started at %v, and it is %v", s.Started(), began)
		}
		parked := s.Park()
		time.AfterFunc(wait, func() {
			parked.Resume(func(s *relay.Stream) {
				if s == nil {
					return
				}
				if now := s.Now(); now.Sub(began) < wait || now.After(time.Now()) {
					t.Errorf("it was %v, and is %v", began, now)
				}
				s.Forward(w.h.target())
			})
		})
	})
	if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil {
		t.Error(err)
	}
}

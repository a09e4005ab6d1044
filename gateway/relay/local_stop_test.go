package relay_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestLocalStop: Shutdown waits for calls inside the process, and cuts them off when its context ends. Later calls
// fail.
func TestLocalStop(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	s, lost := w.open(t, "Echo"), w.open(t, "Wait")
	check.Must(t, s.Send(relay.Message{Data: []byte("a")}))
	wantMessage(t, s, []byte("a"))
	check.Received(t, w.back.started, "the start of the call at the backend")
	ctx, cancel := context.WithCancel(w.ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Shutdown(ctx) }()
	check.Must(t, s.Send(relay.Message{Data: []byte("b")}))
	wantMessage(t, s, []byte("b"))
	s.CloseSend()
	wantEnd(t, s, codes.OK)
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown left a call behind: %v", err)
	default:
	}
	cancel()
	if err := check.Received(t, stopped, "the end of Shutdown"); err == nil {
		t.Error("Shutdown says that it cut nothing off")
	}
	wantEnd(t, lost, codes.Unavailable)
	wantEnd(t, w.open(t, "Echo"), codes.Unavailable)
	var a relay.Response
	w.Unary(w.ctx, relay.Request{Path: "/t.T/Echo"}, make([]byte, relay.Headroom), &a)
	if a.Status.Code != uint32(codes.Unavailable) {
		t.Errorf("%+v", a.Status)
	}
}

// TestLocalCrash: when a shard is discarded after a panic, its calls inside the process end with INTERNAL, including
// the call that caused it. The next call succeeds on the same shard.
func TestLocalCrash(t *testing.T) {
	t.Parallel()
	told := &panics{}
	w := newRelayed(t, relay.Config{
		Shards:   1,
		Panicked: told.told,
		Forwarding: relay.Forwarding{OmitHeader: func(name string) bool {
			if name == "x-boom" {
				panic("boom")
			}
			return false
		}},
	})
	for range 3 {
		held, waits := w.open(t, "Echo"), w.open(t, "Wait")
		check.Must(t, held.Send(relay.Message{Data: []byte("a")}))
		wantMessage(t, held, []byte("a"))
		check.Received(t, w.back.started, "the start of the call at the backend")
		bad := w.open(t, "Echo", relay.Field{Name: "x-boom", Value: "1"})
		wantEnd(t, bad, codes.Internal)
		wantEnd(t, held, codes.Internal)
		wantEnd(t, waits, codes.Internal)
		told.want(t, "relay shard")
		if err := held.Send(relay.Message{}); !errors.Is(err, io.EOF) {
			t.Errorf("Send after the end: %v", err)
		}
		var a relay.Response
		w.Unary(w.ctx, relay.Request{Path: "/t.T/Echo"}, append(make([]byte, relay.Headroom), 'b'), &a)
		if string(a.Message) != "b" {
			t.Errorf("the next call: %+v", a)
		}
	}
	w.drained(t)
}

// TestLocalMany makes calls of both kinds from many goroutines, some of which cancel.
func TestLocalMany(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Shards: 2})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			var a relay.Response
			for j := range 50 {
				msg := pattern(i*50+j, (i*j*37)%3000)
				ctx, cancel := context.WithCancel(w.ctx)
				if j%7 == 6 {
					go cancel()
				}
				w.Unary(ctx, relay.Request{Path: "/t.T/Echo"}, append(make([]byte, relay.Headroom), msg...), &a)
				if ok := bytes.Equal(a.Message, msg); a.Status.Code == 0 && !ok || a.Status.Code != 0 && j%7 != 6 {
					t.Errorf("call %d of %d: %+v", j, i, a.Status)
				}
				cancel()
			}
		})
		all.Go(func() {
			s, err := w.Open(w.ctx, relay.Request{Path: "/t.T/Echo"})
			if err != nil {
				t.Error(err)
				return
			}
			all.Go(func() {
				for j := range 50 {
					if err := s.Send(relay.Message{Data: pattern(j, j*i*11)}); err != nil {
						t.Error(err)
					}
				}
				s.CloseSend()
			})
			var buf []byte
			for j := range 50 {
				m, err := s.Recv(buf)
				if err != nil || !bytes.Equal(m.Data, pattern(j, j*i*11)) {
					t.Errorf("message %d of %d: %d bytes, %v, %+v", j, i, len(m.Data), err, s.Status())
					return
				}
				buf = m.Data
			}
			wantEnd(t, s, codes.OK)
		})
	}
	check.Ended(t, &all, "the calls")
	w.drained(t)
}

// TestFirstReasonOfAnEnd: a rejected call ends with that reason even if its caller cancels it before its busy shard has
// seen the rejection.
func TestFirstReasonOfAnEnd(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Shards: 1})
	busy, free := make(chan struct{}), make(chan struct{})
	w.h.onHeaders(func(s *relay.Stream) {
		if _, ok := s.Header("busy"); ok {
			close(busy)
			<-free
		}
		s.Forward(w.h.target())
	})
	call := w.open(t, "Echo")
	check.Must(t, call.Send(relay.Message{Data: []byte("a")}))
	wantMessage(t, call, []byte("a"))
	var all sync.WaitGroup
	all.Go(func() {
		other := w.open(t, "Echo", relay.Field{Name: "busy", Value: "1"})
		<-free
		other.Cancel()
	})
	check.Received(t, busy, "the shard to be busy")
	call.Reject()
	call.Cancel()
	close(free)
	check.Ended(t, &all, "the other call to end")
	wantEnd(t, call, codes.InvalidArgument)
	for _, r := range w.h.results(t, 2) {
		if r.Failure == relay.MessageMalformed {
			return
		}
	}
	t.Error("the call did not end as malformed")
}

package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// served serves the methods of backend in the process, by local streams.
func (w *relayed) served(s *relay.ServerStream) relay.Status {
	switch s.Path() {
	case "/t.T/Echo":
		return servedEcho(s)
	case "/t.T/Collect":
		var all []byte
		for {
			m, err := s.Recv(nil)
			if errors.Is(err, io.EOF) {
				return sent(s.Send(relay.Message{Data: all}))
			} else if err != nil {
				return sent(err)
			}
			all = append(all, m.Data...)
		}
	case "/t.T/Count":
		m, err := s.Recv(nil)
		var n, size int
		if _, serr := fmt.Sscan(string(m.Data), &n, &size); serr != nil || err != nil {
			return relay.Status{Code: 3}
		}
		for i := range n {
			if err := s.Send(relay.Message{Data: pattern(i, size)}); err != nil {
				return sent(err)
			}
		}
		return relay.Status{}
	case "/t.T/Wait":
		w.back.started <- struct{}{}
		<-s.Context().Done()
		w.back.left <- s.Context().Err()
		return relay.Status{Code: 1}
	case "/t.T/Meta":
		return servedMeta(s)
	case "/t.T/Panic":
		panic("boom")
	}
	return relay.Status{Code: 12, Message: s.Path()}
}

func servedEcho(s *relay.ServerStream) relay.Status {
	var buf []byte
	for {
		m, err := s.Recv(buf)
		if errors.Is(err, io.EOF) {
			return relay.Status{}
		}
		if err == nil {
			err = s.Send(m)
		}
		if err != nil {
			return sent(err)
		}
		buf = m.Data
	}
}

func servedMeta(s *relay.ServerStream) relay.Status {
	var head, tail []relay.Field
	for _, f := range s.Header() {
		if f.Name[:2] == "x-" {
			head = append(head, relay.Field{Name: "head-" + f.Name, Value: f.Value})
			tail = append(tail, relay.Field{Name: "tail-" + f.Name, Value: f.Value})
		}
	}
	if err := s.SendHeader(head...); err != nil {
		return relay.Status{Code: 13, Message: err.Error()}
	}
	if s.SendHeader() == nil || s.SetTrailer(relay.Field{Name: "grpc-status", Value: "3"}) == nil {
		return relay.Status{Code: 13, Message: "wrong fields were taken"}
	}
	if err := s.SetTrailer(tail...); err != nil {
		return relay.Status{Code: 13, Message: err.Error()}
	}
	return servedEcho(s)
}

func sent(err error) relay.Status {
	if errors.Is(err, relay.ErrMessageTooLarge) {
		return relay.Status{Code: 8, Message: err.Error()}
	}
	if err != nil {
		return relay.Status{Code: 1, Message: err.Error()}
	}
	return relay.Status{}
}

// newServed returns a relayed whose calls are served in the process.
func newServed(t testing.TB, cfg relay.Config) *relayed {
	w := newRelayed(t, cfg)
	w.h.onHeaders(func(s *relay.Stream) { s.Serve(w.served) })
	return w
}

// TestServeEveryKind sends messages of all sizes in both directions to code in the process, from grpc-go and from the
// process.
func TestServeEveryKind(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*relayed){
		"at once": func(*relayed) {},
		"read": func(w *relayed) {
			w.h.onHeaders((*relay.Stream).ReadMessage)
			w.h.onMessage(func(s *relay.Stream, _ relay.Message) { s.Serve(w.served) })
		},
		"park": func(w *relayed) {
			w.h.onHeaders(func(s *relay.Stream) {
				p := s.Park()
				go p.Resume(func(s *relay.Stream) { s.Serve(w.served) })
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newServed(t, relay.Config{})
			prepare(w)
			for _, size := range []int{0, 1, 100, 16<<10 - 5, 16 << 10, 65530, 65535, 65536, 1 << 20} {
				w.everyKind(t, size)
				w.localKinds(t, size)
			}
			w.drained(t)
		})
	}
}

// TestServeStatus: headers, trailers and a status reach a grpc-go client as those of a server do. A panic becomes
// INTERNAL.
func TestServeStatus(t *testing.T) {
	t.Parallel()
	told := &panics{}
	w := newServed(t, relay.Config{Panicked: told.told})
	_, err := unary(w.ctx, w.cc, "Nothing", nil)
	if st := status.Convert(err); st.Code() != codes.Unimplemented || st.Message() != "/t.T/Nothing" {
		t.Errorf("%v; st %+v", err, st)
	}
	_, err = unary(w.ctx, w.cc, "Panic", nil)
	if status.Code(err) != codes.Internal {
		t.Errorf("after a panic: %v", err)
	}
	told.want(t, "relay serve")
	var head, tail metadata.MD
	ctx := metadata.AppendToOutgoingContext(w.ctx, "x-a", "1", "x-a", "2")
	if _, err := unary(ctx, w.cc, "Meta", []byte("x"), grpc.Header(&head), grpc.Trailer(&tail)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(head["head-x-a"], tail["tail-x-a"]); got != "[1 2] [1 2]" {
		t.Errorf("%s, of %v and %v", got, head, tail)
	}
	w.drained(t)
	for i, r := range w.h.results(t, 3) {
		if r.Code != []uint32{12, 13, 0}[i] || !r.Upstream || r.Forwarded == 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestServedCallEnds: when a call ends, for any reason, its context ends.
func TestServedCallEnds(t *testing.T) {
	t.Parallel()
	w := newServed(t, relay.Config{})
	for _, how := range []string{"canceled", "canceled in the process", "deadline"} {
		ctx, cancel := context.WithCancel(w.ctx)
		want := context.Canceled
		switch how {
		case "canceled":
			s := stream(ctx, t, w.cc, "Wait")
			check.Must(t, send(s, nil))
		case "canceled in the process":
			_, err := w.Open(ctx, relay.Request{Path: "/t.T/Wait"})
			check.Must(t, err)
		case "deadline":
			w.h.onHeaders(func(s *relay.Stream) {
				s.SetDeadline(30 * time.Millisecond)
				s.Serve(w.served)
			})
			s := w.open(t, "Wait")
			defer wantEnd(t, s, codes.DeadlineExceeded)
			want = context.DeadlineExceeded
		}
		check.Received(t, w.back.started, "the start of the call at the backend")
		if how != "deadline" {
			cancel()
		}
		if err := check.Received(t, w.back.left, "the end of the call at the backend"); !errors.Is(err, want) {
			t.Errorf("%s: %v", how, err)
		}
		cancel()
	}
	w.drained(t)
}

// TestServeStop: Shutdown waits for served calls, and cancels their contexts when its own context ends.
func TestServeStop(t *testing.T) {
	t.Parallel()
	w := newServed(t, relay.Config{})
	s := w.open(t, "Wait")
	check.Received(t, w.back.started, "the start of the call at the backend")
	ctx, cancel := context.WithCancel(w.ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Shutdown(ctx) }()
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown left a call behind: %v", err)
	case err := <-w.back.left:
		t.Fatalf("Shutdown has ended a call at once: %v", err)
	case <-time.After(10 * time.Millisecond): // the call must not end yet
	}
	cancel()
	if err := check.Received(t, stopped, "the end of Shutdown"); err == nil {
		t.Error("Shutdown says that it cut nothing off")
	}
	if len(w.back.left) != 1 {
		t.Error("Shutdown did not wait for what was served")
	}
	wantEnd(t, s, codes.Unavailable)
}

// TestServeCrash: when a shard is discarded after a panic, the contexts of its served calls end.
func TestServeCrash(t *testing.T) {
	t.Parallel()
	told := &panics{}
	w := newServed(t, relay.Config{
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
		s := w.open(t, "Wait")
		up := w.open(t, "Echo")
		check.Must(t, up.Send(relay.Message{Data: []byte("a")}))
		wantMessage(t, up, []byte("a"))
		check.Received(t, w.back.started, "the start of the call at the backend")
		wantEnd(t, w.open(t, "Echo", relay.Field{Name: "x-boom", Value: "1"}), codes.Internal)
		w.back.hasLeft(t)
		wantEnd(t, s, codes.Internal)
		wantEnd(t, up, codes.Internal)
		told.want(t, "relay shard")
	}
	w.drained(t)
}

// TestServeTooLarge: a message that exceeds the server's limit ends the call.
func TestServeTooLarge(t *testing.T) {
	t.Parallel()
	w := newServed(t, relay.Config{HTTP2: relay.HTTP2{MaxFirstMessage: 1000}})
	if _, err := unary(w.ctx, w.cc, "Echo", make([]byte, 1000)); err != nil {
		t.Error(err)
	}
	for _, size := range []int{1001, 100_000} {
		if _, err := unary(w.ctx, w.cc, "Echo", make([]byte, size)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	w.drained(t)
}

// TestServeMemory: messages that served code has not read are charged to the call's group, as are those that its caller
// has not read.
func TestServeMemory(t *testing.T) {
	t.Parallel()
	tenant := &budget{limit: 1 << 30}
	w := newServed(t, relay.Config{Shards: 1})
	group := w.NewGroup(nil, tenant)
	w.h.onHeaders(func(s *relay.Stream) {
		s.Charge(group)
		s.Serve(w.served)
	})
	s := w.open(t, "Wait")
	check.Received(t, w.back.started, "the start of the call at the backend")
	check.Must(t, s.Send(relay.Message{Data: make([]byte, 60_000)}))
	check.Succeeds(t, "the memory to be charged", func() error {
		if held := tenant.held.Load(); held < 60_000 {
			return fmt.Errorf("%d bytes are charged", held)
		}
		return nil
	})

	s.Cancel()
	wantEnd(t, s, codes.Canceled)
	w.drained(t)
	if held := tenant.held.Load(); held > 32<<10 { // a step that the relay keeps
		t.Errorf("%d bytes are still charged", held)
	}
}

// TestServeCompressed: compressed messages keep their flag, and their bytes are not decoded.
func TestServeCompressed(t *testing.T) {
	t.Parallel()
	w := newServed(t, relay.Config{})
	s := w.open(t, "Echo", relay.Field{Name: "grpc-encoding", Value: "gzip"})
	want := relay.Message{Data: []byte("not really"), Compressed: true}
	check.Must(t, s.Send(want))
	if m, err := s.Recv(nil); err != nil || !m.Compressed || !bytes.Equal(m.Data, want.Data) {
		t.Errorf("%+v, %v", m, err)
	}
	s.CloseSend()
	wantEnd(t, s, codes.OK)
}

// hasLeft waits until a Wait has ended because its caller has left.
func (b *backend) hasLeft(t testing.TB) {
	t.Helper()
	if err := check.Received(t, b.left, "the end of the call at the backend"); err == nil {
		t.Error("the context of a call that has ended has no error")
	}
}

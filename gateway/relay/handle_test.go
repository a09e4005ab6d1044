package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// parentRelayed serves /t.T/Parent by serve. Other calls go to the backend.
func parentRelayed(t testing.TB, serve func(*relay.ServerStream) relay.Status) *relayed {
	w := newRelayed(t, relay.Config{Shards: 2})
	w.h.onHeaders(func(s *relay.Stream) {
		if _, continues := s.Continues(); s.Path() == "/t.T/Parent" && !continues {
			s.Value = "the call"
			s.Serve(serve)
			return
		}
		s.Forward(w.h.target())
	})
	return w
}

// TestContinue: a subrequest runs on its parent's shard and has its parent's Value. A call has at most one such
// subrequest at a time.
func TestContinue(t *testing.T) {
	t.Parallel()
	var w *relayed
	w = parentRelayed(t, func(s *relay.ServerStream) relay.Status {
		first, err := s.Continue(s.Context(), relay.Request{Path: "/t.T/Echo"})
		check.Must(t, err)
		if _, err := s.Continue(s.Context(), relay.Request{Path: "/t.T/Echo"}); !errors.Is(err, relay.ErrContinued) {
			t.Errorf("a second one: %v", err)
		}
		beside, err := w.Open(s.Context(), relay.Request{Path: "/t.T/Echo", Parent: s.Handle()})
		check.Must(t, err)
		for _, c := range []*relay.ClientStream{first, beside} {
			check.Must(t, c.Send(relay.Message{Data: []byte("x")}))
			wantMessage(t, c, []byte("x"))
			c.CloseSend()
			wantEnd(t, c, codes.OK)
		}
		again, err := s.Continue(s.Context(), relay.Request{Path: "/t.T/Nothing"})
		check.Must(t, err)
		wantEnd(t, again, codes.Unimplemented) // does not end its parent
		return sent(s.Send(relay.Message{Data: []byte("done")}))
	})
	h := w.h.headers
	shard := -1
	w.h.onHeaders(func(s *relay.Stream) {
		value, continues := s.Continues()
		if s.Path() == "/t.T/Parent" {
			shard = s.Shard()
		} else if s.Shard() != shard || continues && value != "the call" {
			t.Errorf("%s on shard %d, not %d; %v", s.Path(), s.Shard(), shard, value)
		}
		h(s)
	})
	for range 4 {
		s := w.open(t, "Parent")
		wantMessage(t, s, []byte("done"))
		wantEnd(t, s, codes.OK)
	}
	w.drained(t)
}

// TestHandleDies: when the function that serves the call has returned, its handle is rejected and its subrequests end.
func TestHandleDies(t *testing.T) {
	t.Parallel()
	var handle relay.Handle
	var child *relay.ClientStream
	var w *relayed
	w = parentRelayed(t, func(s *relay.ServerStream) relay.Status {
		handle = s.Handle()
		var err error
		child, err = s.Continue(context.Background(), relay.Request{Path: "/t.T/Wait"})
		check.Must(t, err)
		select {
		case <-w.back.started:
		case <-w.ctx.Done():
		}
		return relay.Status{}
	})
	wantEnd(t, w.open(t, "Parent"), codes.OK)
	wantEnd(t, child, codes.Canceled)
	check.Succeeds(t, "a dead handle to be refused", func() error {
		c, err := handle.Continue(w.ctx, relay.Request{Path: "/t.T/Echo"})
		if err == nil {
			c.Cancel()
			return errors.New("a dead handle was taken")
		}
		if !errors.Is(err, relay.ErrHandleDead) && !errors.Is(err, relay.ErrContinued) {
			t.Errorf("%v", err)
		}
		return nil
	})

	var a relay.Response
	w.Unary(w.ctx, relay.Request{Path: "/t.T/Echo", Parent: handle}, make([]byte, relay.Headroom), &a)
	if a.Status.Code == 0 {
		t.Error("Unary took a dead handle")
	}
	if err := handle.Detach(func(context.Context) {
		t.Error("a function was detached from a call that is over")
	}); !errors.Is(err, relay.ErrHandleDead) {
		t.Errorf("Detach: %v", err)
	}
	w.drained(t)
}

// TestParentHasEnded: a subrequest of a call that has already ended ends at once and is not forwarded.
func TestParentHasEnded(t *testing.T) {
	t.Parallel()
	children := make(chan *relay.ClientStream, 1)
	var w *relayed
	w = parentRelayed(t, func(s *relay.ServerStream) relay.Status {
		w.back.started <- struct{}{}
		<-s.Context().Done()
		c, err := s.Continue(context.Background(), relay.Request{Path: "/t.T/Nothing"})
		check.Must(t, err)
		children <- c
		return relay.Status{Code: uint32(codes.Canceled)}
	})
	s := w.open(t, "Parent")
	check.Received(t, w.back.started, "the start of the call")
	s.Cancel()
	wantEnd(t, s, codes.Canceled)
	wantEnd(t, check.Received(t, children, "the child call"), codes.Canceled)
	w.drained(t)
}

// TestDeadlineOfSubrequests: a subrequest's deadline is no later than its parent's.
func TestDeadlineOfSubrequests(t *testing.T) {
	t.Parallel()
	w := parentRelayed(t, func(s *relay.ServerStream) relay.Status {
		c, err := s.Continue(context.Background(), relay.Request{Path: "/t.T/Nothing", Timeout: 2 * time.Hour})
		check.Must(t, err)
		wantEnd(t, c, codes.Unimplemented)
		return relay.Status{}
	})
	headers := w.h.headers
	w.h.onHeaders(func(s *relay.Stream) {
		if left, given := s.Timeout(); !given || left > time.Hour {
			t.Errorf("%s is given %v", s.Path(), left)
		}
		headers(s)
	})
	s, err := w.Open(context.Background(), relay.Request{Path: "/t.T/Parent", Timeout: time.Hour})
	check.Must(t, err)
	wantEnd(t, s, codes.OK)
	w.drained(t)
}

// TestParentEnds: subrequests end with their parent, at its deadline at the latest.
func TestParentEnds(t *testing.T) {
	t.Parallel()
	children := make(chan *relay.ClientStream, 100)
	w := parentRelayed(t, func(s *relay.ServerStream) relay.Status {
		c, err := s.Continue(context.Background(), relay.Request{Path: "/t.T/Wait", Timeout: time.Hour})
		if err == nil { // otherwise the deadline has already passed
			children <- c
		}
		<-s.Context().Done()
		// The function may see the deadline before the relay does.
		return relay.Status{Code: uint32(status.FromContextError(s.Context().Err()).Code())}
	})
	s := w.open(t, "Parent")
	check.Received(t, w.back.started, "the start of the call at the backend")
	s.Cancel()
	wantEnd(t, s, codes.Canceled)
	wantEnd(t, check.Received(t, children, "the child call"), codes.Canceled)
	w.overdue(t, "Parent", func() bool { return len(children) > 0 })
	if c := check.Received(t, children, "the child call"); true {
		for err := error(nil); err == nil; {
			_, err = c.Recv(nil)
		}
		if code := codes.Code(c.Status().Code); code != codes.DeadlineExceeded && code != codes.Canceled {
			t.Errorf("%+v", c.Status())
		}
	}
	w.drained(t)
}

// TestDetach: a detached function outlives the call, and its subrequests are not bound to the call's deadline. The
// handle is rejected once the function has returned.
func TestDetach(t *testing.T) {
	t.Parallel()
	var w *relayed
	var h relay.Handle
	proceed, done := make(chan struct{}), make(chan struct{})
	proceeds := sync.OnceFunc(func() { close(proceed) })
	w = parentRelayed(t, func(s *relay.ServerStream) relay.Status {
		h = s.Handle()
		check.Must(t, h.Detach(func(ctx context.Context) {
			defer close(done)
			<-proceed
			c, err := h.Continue(ctx, relay.Request{Path: "/t.T/Echo"})
			check.Must(t, err)
			check.Must(t, c.Send(relay.Message{Data: []byte("late")}))
			wantMessage(t, c, []byte("late"))
			c.CloseSend()
			wantEnd(t, c, codes.OK)
		}))
		return relay.Status{}
	})
	check.Cleanup(t, proceeds)
	s, err := w.Open(w.ctx, relay.Request{Path: "/t.T/Parent", Timeout: time.Hour})
	check.Must(t, err)
	wantEnd(t, s, codes.OK)
	w.drained(t)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Shutdown(w.ctx) }()
	proceeds()
	check.Received(t, done, "the detached function to end")
	check.Must(t, check.Received(t, stopped, "the end of Shutdown"))
	if _, err := h.Continue(w.ctx, relay.Request{Path: "/t.T/Echo"}); !errors.Is(err, relay.ErrHandleDead) {
		t.Errorf("a handle that no function may use any more: %v", err)
	}
}

// TestSubrequestsAreCharged: the memory of a subrequest is charged to its parent's group, and released. If the group
// has none left, the subrequest ends, and its parent does not.
func TestSubrequestsAreCharged(t *testing.T) {
	t.Parallel()
	tenant := &budget{limit: 1 << 20}
	w := parentRelayed(t, func(s *relay.ServerStream) relay.Status {
		var most, wide int64
		for i, size := range []int{1000, 2 << 20} {
			c, err := s.Continue(s.Context(), relay.Request{Path: "/t.T/Count", MaxMessage: 4 << 20})
			check.Must(t, err)
			check.Must(t, c.Send(relay.Message{Data: fmt.Appendf(nil, "1 %d", size)}))
			_, err = c.Recv(nil)
			if i == 0 {
				most = tenant.most.Load()
				check.Must(t, err)
				c.CloseSend()
				wantEnd(t, c, codes.OK)
				continue
			}
			if wide = tenant.most.Load(); !errors.Is(err, io.EOF) ||
				!strings.Contains(c.Status().Message, relay.AccountExceeded.String()) {
				t.Errorf("%v, %+v", err, c.Status())
			}
		}
		if most == 0 || wide <= most || wide > 1<<20 {
			t.Errorf("at most %d and then %d bytes were charged", most, wide)
		}
		return relay.Status{}
	})
	group := w.NewGroup(nil, tenant)
	headers := w.h.headers
	w.h.onHeaders(func(s *relay.Stream) {
		if _, continues := s.Continues(); !continues && !s.Charge(group) {
			t.Error("there is no room for the call")
		}
		headers(s)
	})
	wantEnd(t, w.open(t, "Parent"), codes.OK)
	w.drained(t)
	check.Succeeds(t, "the memory to be given back", func() error {
		if held := tenant.held.Load(); held > 64<<10 {
			return fmt.Errorf("%d bytes are still charged", held)
		}
		return nil
	})

}

// TestDetachedDeadline: subrequests of a detached function continue after the call's deadline.
func TestDetachedDeadline(t *testing.T) {
	t.Parallel()
	detached, done := make(chan struct{}, 100), make(chan struct{}, 100)
	w := parentRelayed(t, func(s *relay.ServerStream) relay.Status {
		h := s.Handle()
		if h.Detach(func(ctx context.Context) {
			defer func() { done <- struct{}{} }()
			<-s.Context().Done()
			c, err := h.Continue(ctx, relay.Request{Path: "/t.T/Echo"})
			check.Must(t, err)
			check.Must(t, c.Send(relay.Message{Data: []byte("late")}))
			wantMessage(t, c, []byte("late"))
			c.CloseSend()
			wantEnd(t, c, codes.OK)
		}) == nil { // otherwise the deadline has already passed
			detached <- struct{}{}
		}
		<-s.Context().Done()
		return relay.Status{Code: uint32(codes.DeadlineExceeded)}
	})
	w.overdue(t, "Parent", func() bool { return len(detached) > 0 })
	check.Received(t, done, "the detached function to end")
	w.drained(t)
}

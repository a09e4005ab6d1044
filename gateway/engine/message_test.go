package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
)

// slowCaller takes no message before it is opened.
type slowCaller struct {
	grpc.ServerStream
	ctx    context.Context //nolint:containedctx // grpc.ServerStream has one
	opened chan struct{}
	got    []string
}

func (s *slowCaller) Context() context.Context { return s.ctx }

func (s *slowCaller) SendMsg(m any) error {
	<-s.opened
	s.got = append(s.got, string(*m.(*[]byte)))
	return nil
}

// TestFirstEvent reaches a caller that is cut off while the event is being sent.
func TestFirstEvent(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		g := New(Config{Refuse: func(_ context.Context, r *call.Refusal) error { return r }})
		s := &slowCaller{ctx: t.Context(), opened: make(chan struct{})}
		b, cutOff := newBacklog(10), make(chan error, 1)
		go func() { cutOff <- g.deliver(s, &Call{meter: noMeter{}}, b) }()
		b.put([]byte("first"))
		synctest.Wait() // it is being sent
		b.put([]byte("0123456789"))
		b.put([]byte("x"))
		<-b.over
		synctest.Wait()
		select {
		case err := <-cutOff:
			t.Errorf("cut off before the first event: %v", err)
		default:
		}
		close(s.opened)
		var refusal *call.Refusal
		if err := <-cutOff; !errors.As(err, &refusal) || refusal.Reason != "ENGINE_READER_SLOW" {
			t.Errorf("cut off: %v; refusal %+v", err, refusal)
		}
		if !slices.Equal(s.got, []string{"first"}) {
			t.Errorf("it got %q", s.got)
		}
	})
}

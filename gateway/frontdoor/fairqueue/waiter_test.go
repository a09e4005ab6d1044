package fairqueue

import (
	"context"
	"errors"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// interrupted is a context that interrupts its Waiter when it ends, and has no Done.
type interrupted struct {
	context.Context
	waiter chan Waiter
}

func (i interrupted) WaitIn(w Waiter) bool {
	i.waiter <- w
	return true
}

func (i interrupted) EndWait() bool { return i.Err() != nil }

func (interrupted) Done() <-chan struct{} { return nil }

// TestInterruptedWait: a context that interrupts its wait ends it like any other, and a request that is admitted does
// not leave.
func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	q := open(t, 2)
	release := q.hold()
	ended := make(chan error, 1)
	wait := func() (context.CancelFunc, Waiter) {
		ctx, leave := context.WithCancel(check.Context(t))
		in := interrupted{ctx, make(chan Waiter, 1)}
		go func() { ended <- q.Wait(in, "a", "") }()
		return leave, check.Received(t, in.waiter, "the wait")
	}
	leave, w := wait()
	leave()
	w.Interrupt()
	if err := check.Received(t, ended, "the end of a wait"); !errors.Is(err, context.Canceled) {
		t.Errorf("a request whose client has left ends its wait with %v", err)
	}
	leave, _ = wait()
	defer leave()
	release()
	if err := check.Received(t, ended, "the end of a wait"); err != nil {
		t.Errorf("a request is not admitted: %v", err)
	}
}

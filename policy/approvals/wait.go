package approvals

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

// poll is the interval at which watched approvals are queried, in case a notification is lost.
const poll = 2 * time.Second

// ErrBusy is the error of Wait and Events at their limit.
var ErrBusy = errors.New("too many calls are already waiting for approval")

// Wait waits until an approval is answered or expires. If ctx ends before, it returns the last known state
// without an error. Errors are ErrBusy and *call.Refusal: NotFound, or Unavailable if the store could not
// be queried.
func (k *Service) Wait(ctx context.Context, tenant, id string) (Approval, error) {
	if !isID(id) {
		return Approval{}, refusedUnknown(id)
	}
	w, err := k.startWatch(waitKey{strings.Clone(tenant), strings.Clone(id)})
	if err != nil {
		return Approval{}, err
	}
	defer k.stopWatch(w)
	a, err := k.Get(ctx, tenant, id)
	if err != nil || a.State != Pending {
		return a, err
	}
	k.waiting.Add(1)
	defer k.waiting.Add(-1)
	select {
	case <-ctx.Done():
		return a, nil
	case <-w.done:
		now, err := k.Get(ctx, tenant, id)
		if err != nil && ctx.Err() != nil {
			return a, nil
		}
		return now, err
	}
}

// watch is an approval that callers wait for. They share one query of the store.
type watch struct {
	key     waitKey
	waiters int // guarded by watching.mu
	stop    context.CancelFunc
	done    chan struct{} // closed when it is no longer pending
	ended   chan struct{} // closed when the goroutine has ended
}

type watches struct {
	mu      sync.Mutex
	all     map[waitKey]*watch
	waiters int // of all of them
}

// startWatch watches an approval, or joins the existing watch.
func (k *Service) startWatch(key waitKey) (*watch, error) {
	k.watches.mu.Lock()
	defer k.watches.mu.Unlock()
	if k.watches.waiters >= k.opts.MaxWaiting {
		return nil, ErrBusy
	}
	if w := k.watches.all[key]; w != nil {
		w.waiters++
		k.watches.waiters++
		return w, nil
	}
	wake, remove, ok := k.waiters.add(key)
	if !ok {
		return nil, ErrBusy
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &watch{key: key, waiters: 1, stop: stop, done: make(chan struct{}), ended: make(chan struct{})}
	k.watches.all[key] = w
	k.watches.waiters++
	go func() { // stopWatch stops it and waits
		defer close(w.ended)
		defer remove()
		recovery.Loop(ctx, "approval", func() { k.watch(ctx, w, wake) })()
	}()
	return w, nil
}

// stopWatch ends the watch with its last waiter.
func (k *Service) stopWatch(w *watch) {
	k.watches.mu.Lock()
	w.waiters--
	k.watches.waiters--
	last := w.waiters == 0
	if last {
		delete(k.watches.all, w.key)
	}
	k.watches.mu.Unlock()
	if last {
		w.stop()
		<-w.ended
	}
}

// watch queries the state until it is not pending, or ctx ends.
func (k *Service) watch(ctx context.Context, w *watch, wake <-chan struct{}) {
	for ctx.Err() == nil {
		state, left, err := k.store.State(ctx, w.key.tenant, w.key.id)
		if err == nil && state != Pending || errors.Is(err, ErrUnknown) {
			close(w.done)
			return
		}
		again := poll*3/4 + k.opts.Jitter(poll/4)
		if err == nil {
			again = min(again, max(left, time.Millisecond))
		}
		signal.Wait(ctx, wake, again)
	}
}

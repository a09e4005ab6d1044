package approvals

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// poll is how often the store is asked for an approval that somebody waits for: so late at
// most, a lost notice is made up for.
const poll = 2 * time.Second

// ErrBusy is what Wait and Events say where as many wait as may.
var ErrBusy = errors.New("too many wait for approvals already")

// Wait waits until an approval is answered or over. Where ctx ends before, it is as it was
// last known, without an error. Errors are ErrBusy and *call.Refusal: NotFound, or
// Unavailable where the store could not be asked at all, or not for the answer.
func (k *Keeper) Wait(ctx context.Context, tenant, id string) (Approval, error) {
	if !isID(id) {
		return Approval{}, refusedUnknown(id)
	}
	w, err := k.join(wakeKey{strings.Clone(tenant), strings.Clone(id)})
	if err != nil {
		return Approval{}, err
	}
	defer k.leave(w)
	a, err := k.Get(ctx, tenant, id)
	if err != nil || a.State != Pending {
		return a, err
	}
	k.waiting.Add(1)
	defer k.waiting.Add(-1)
	select {
	case <-ctx.Done():
		return a, nil
	case <-w.over:
		now, err := k.Get(ctx, tenant, id)
		if err != nil && ctx.Err() != nil {
			return a, nil
		}
		return now, err
	}
}

// watch is an approval that somebody waits for. However many do, the store is asked once
// for all.
type watch struct {
	key     wakeKey
	waiters int // guarded by watching.mu
	stop    context.CancelFunc
	over    chan struct{} // closed when it is not pending any more
	ended   chan struct{} // closed when nobody asks any more
}

type watching struct {
	mu      sync.Mutex
	all     map[wakeKey]*watch
	waiters int // of all of them
}

// join begins to watch an approval, or joins those who do.
func (k *Keeper) join(key wakeKey) (*watch, error) {
	k.watching.mu.Lock()
	defer k.watching.mu.Unlock()
	if k.watching.waiters >= k.opts.Waiting {
		return nil, ErrBusy
	}
	if w := k.watching.all[key]; w != nil {
		w.waiters++
		k.watching.waiters++
		return w, nil
	}
	wake, remove, ok := k.wakes.add(key)
	if !ok {
		return nil, ErrBusy
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &watch{key: key, waiters: 1, stop: stop, over: make(chan struct{}), ended: make(chan struct{})}
	k.watching.all[key] = w
	k.watching.waiters++
	go func() { // leave stops it and waits
		defer close(w.ended)
		defer remove()
		recovery.Loop(ctx, "approval", func() { k.watch(ctx, w, wake) })()
	}()
	return w, nil
}

// leave ends the watch with the last who waits.
func (k *Keeper) leave(w *watch) {
	k.watching.mu.Lock()
	w.waiters--
	k.watching.waiters--
	last := w.waiters == 0
	if last {
		delete(k.watching.all, w.key)
	}
	k.watching.mu.Unlock()
	if last {
		w.stop()
		<-w.ended
	}
}

// watch asks for the state until it is not pending, or ctx ends.
func (k *Keeper) watch(ctx context.Context, w *watch, wake <-chan struct{}) {
	for {
		state, left, err := k.store.State(ctx, w.key.tenant, w.key.id)
		if err == nil && state != Pending || errors.Is(err, ErrUnknown) {
			close(w.over)
			return
		}
		again := poll*3/4 + rand.N(poll/4)
		if err == nil {
			again = min(again, max(left, time.Millisecond))
		}
		t := time.NewTimer(again)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-t.C:
		}
		if t.Stop(); ctx.Err() != nil {
			return
		}
	}
}

package approvals

import (
	"sync"

	"github.com/capgate/capgate/internal/lib/signal"
)

// waitKey identifies an approval, or without an id any event of a tenant.
type waitKey struct{ tenant, id string }

// waiters are the channels that are signaled by events.
type waiters struct {
	limit int

	mu  sync.Mutex
	all map[waitKey]map[chan struct{}]struct{}
	n   int
}

func newWaiters(most int) *waiters {
	return &waiters{limit: most, all: map[waitKey]map[chan struct{}]struct{}{}}
}

// add returns false at the limit. Otherwise remove must be called.
func (w *waiters) add(k waitKey) (wake chan struct{}, remove func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n >= w.limit {
		return nil, nil, false
	}
	w.n++
	wake = make(chan struct{}, 1)
	if w.all[k] == nil {
		w.all[k] = map[chan struct{}]struct{}{}
	}
	w.all[k][wake] = struct{}{}
	return wake, func() { w.remove(k, wake) }, true
}

func (w *waiters) remove(k waitKey, wake chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	if delete(w.all[k], wake); len(w.all[k]) == 0 {
		delete(w.all, k)
	}
}

func (w *waiters) notify(k waitKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wake := range w.all[k] {
		signal.Wake(wake)
	}
}

func (w *waiters) notifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.all {
		for wake := range of {
			signal.Wake(wake)
		}
	}
}

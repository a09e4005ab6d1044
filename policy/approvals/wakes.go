package approvals

import "sync"

// wakeKey is what is waited for: an approval, or with no id any event of a tenant.
type wakeKey struct{ tenant, id string }

// wakes are those who wait for news. A wake says that there is some, not which.
type wakes struct {
	most int

	mu  sync.Mutex
	all map[wakeKey]map[chan struct{}]struct{}
	n   int
}

func newWakes(most int) *wakes {
	return &wakes{most: most, all: map[wakeKey]map[chan struct{}]struct{}{}}
}

// add is not ok when as many wait as may. remove has to be called when it is.
func (w *wakes) add(k wakeKey) (wake chan struct{}, remove func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n >= w.most {
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

func (w *wakes) remove(k wakeKey, wake chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	if delete(w.all[k], wake); len(w.all[k]) == 0 {
		delete(w.all, k)
	}
}

func (w *wakes) wake(k wakeKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wake := range w.all[k] {
		signal(wake)
	}
}

func (w *wakes) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.all {
		for wake := range of {
			signal(wake)
		}
	}
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

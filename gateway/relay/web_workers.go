package relay

import "sync"

// webWorkers are goroutines that have the http.Handler answer requests, one after the other: a new goroutine for each
// request would have to grow its stack each time.
type webWorkers struct {
	mu     sync.Mutex
	idle   []chan *webEnd // the one that worked last is the next
	closed bool
}

// maxIdleWorkers is how many goroutines of a shard wait for requests. A busy one needs some 16 KiB of stack, which the
// runtime takes back from one that waits.
const maxIdleWorkers = 64

// serve has a goroutine of the shard answer a request.
func (w *webWorkers) serve(r *Relay, e *webEnd) {
	r.serving.Add(1)
	if next := w.take(); next != nil {
		next <- e
		return
	}
	r.wg.Go(func() { w.work(r, e) })
}

// work answers requests as long as there is room among those that wait.
func (w *webWorkers) work(r *Relay, e *webEnd) {
	next := make(chan *webEnd, 1)
	for ok := true; ok; {
		if e.run(); !w.put(next) {
			return
		}
		e, ok = <-next
	}
}

func (w *webWorkers) take() (next chan *webEnd) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.idle) - 1; n >= 0 {
		next, w.idle[n] = w.idle[n], nil
		w.idle = w.idle[:n]
	}
	return next
}

// put returns false when enough others wait.
func (w *webWorkers) put(next chan *webEnd) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.idle) >= maxIdleWorkers {
		return false
	}
	w.idle = append(w.idle, next)
	return true
}

// close ends those that wait, and has the others end after their request.
func (w *webWorkers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, next := range w.idle {
		close(next)
	}
	w.idle = nil
}

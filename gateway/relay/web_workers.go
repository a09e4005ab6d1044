package relay

import "sync"

// webWorkers is a pool of goroutines that run the http.Handler: a new goroutine for each request would have to grow
// its stack each time.
type webWorkers struct {
	mu     sync.Mutex
	idle   []chan *webEnd // most recently used last
	closed bool
}

// maxIdleWorkers is the maximum number of idle goroutines of a shard. A busy one needs about 16 KiB of stack, which
// the runtime reclaims when it is idle.
const maxIdleWorkers = 64

// serve serves a request on a goroutine of the pool.
func (w *webWorkers) serve(r *Relay, e *webEnd) {
	r.serving.Add(1)
	if next := w.take(); next != nil {
		next <- e
		return
	}
	r.wg.Go(func() { w.work(r, e) })
}

// work serves requests until the pool has enough idle goroutines.
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

// put adds a goroutine to the idle ones. It returns false if there are enough.
func (w *webWorkers) put(next chan *webEnd) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.idle) >= maxIdleWorkers {
		return false
	}
	w.idle = append(w.idle, next)
	return true
}

// close ends the idle goroutines. The others end after their request.
func (w *webWorkers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, next := range w.idle {
		close(next)
	}
	w.idle = nil
}

package http1

import (
	"context"
	"sync"
	"time"
)

// watchAfter is the age of a request from which its client's disconnection is noticed. Shorter requests need no
// goroutine and no read for that.
const watchAfter = 20 * time.Millisecond

// watch reads from the connection while a request is served, to notice that its client disconnects.
type watch struct {
	conn *conn

	mu      sync.Mutex
	timer   *time.Timer        // calls read
	over    sync.Cond          // signals that reading is false
	cancel  context.CancelFunc // of the request; nil means none
	body    *body              // of the request
	reading bool
	stop    bool // the read ends because the request has ended
	has     bool // byte is the first one of the next request
	byte    [1]byte
}

// begin is called before the handler, and end after it.
func (w *watch) begin(cancel context.CancelFunc, b *body) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel, w.body = cancel, b
	if w.timer == nil {
		w.timer = time.AfterFunc(watchAfter, w.read)
	} else {
		w.timer.Reset(watchAfter)
	}
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.cancel, w.body = nil, nil
	if !w.reading {
		return
	}
	w.stop = true
	_ = w.conn.nc.SetReadDeadline(time.Unix(1, 0))
	for w.reading {
		w.over.Wait()
	}
	w.stop = false
	_ = w.conn.nc.SetReadDeadline(time.Time{})
}

// read runs on a goroutine of its own. It waits for the client to disconnect, or to send another request early.
func (w *watch) read() {
	if !w.start() {
		return
	}
	n, err := w.conn.nc.Receive(w.byte[:])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.has = n > 0
	if n == 0 && err != nil && !w.stop {
		w.conn.failed.Store(true)
		w.cancel()
	}
	w.reading = false
	w.over.Broadcast()
}

// start reports whether the client may be watched. The body of the request is read first.
func (w *watch) start() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel == nil || w.reading || w.has {
		return false
	}
	if w.body.left.Load() > 0 {
		w.timer.Reset(watchAfter)
		return false
	}
	w.reading = true
	_ = w.conn.nc.SetReadDeadline(time.Time{}) // that of the body
	return true
}

// take returns the byte that was read early.
func (w *watch) take() (b byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok, w.has = w.has, false
	return w.byte[0], ok
}

// cancelRequest ends the context of the running request.
func (w *watch) cancelRequest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}

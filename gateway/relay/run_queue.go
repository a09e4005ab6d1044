package relay

import (
	"os"
	"syscall"
	"time"
)

// Time slices for a connection's input while others wait, in nanoseconds. Short slices cost more, because each write
// is smaller. They are used while latency-sensitive connections are open, which the slices of all others delay.
const (
	timeSlice  = int64(100 * time.Microsecond)
	shortSlice = int64(25 * time.Microsecond)
)

// A client's connection is latency-sensitive if it was not in the run queue for notQueuedFor, has recently carried at
// most fewBytes, and its calls are processed within shortWork. A client that receives much is not latency-sensitive,
// however small its requests.
const (
	notQueuedFor    = int64(50 * time.Millisecond)
	shortWork       = int64(10 * time.Microsecond)
	sensitiveWindow = int64(10 * time.Millisecond) // time for which a latency-sensitive connection shortens slices

	fewBytes = 64 << 10
)

// timeSlice returns the length of a slice that starts now.
func (sh *shard) timeSlice() int64 {
	if at := max(sh.sensitiveAt, sh.relay.hurriedAt.Load()); at != 0 && sh.now-at < sensitiveWindow {
		return shortSlice
	}
	return timeSlice
}

// Hurry makes time slices short for a moment, as a call of a latency-sensitive connection does. It is for requests that
// wait for other goroutines of the process.
func (r *Relay) Hurry() {
	if now := int64(time.Since(r.epoch)); now-r.hurriedAt.Load() > sensitiveWindow/4 {
		r.hurriedAt.Store(now)
	}
}

// checkSensitive records a latency-sensitive connection that started calls in this turn.
func (sh *shard) checkSensitive(c *conn) {
	if c.pool != nil || c.lastID == c.checkedID {
		return
	}
	if c.checkedID = c.lastID; sh.now-c.queuedAt > notQueuedFor && c.traffic.bytes < fewBytes &&
		sh.clock()-sh.now < shortWork {
		sh.sensitiveAt = sh.now
	}
}

// traffic is the number of bytes that a connection has recently carried in both directions.
type traffic struct {
	bytes int
	since int64
}

// add counts n more bytes. The weight of older bytes halves every sensitiveWindow.
func (t *traffic) add(now int64, n int) {
	if old := (now - t.since) / sensitiveWindow; old > 0 {
		t.bytes >>= min(old, 32)
		t.since = now
	}
	t.bytes += n
}

// upstreamRunsPerClient is the number of upstream connections that run for each client connection: started calls
// finish before others start, or all calls would wait at the backends.
const upstreamRunsPerClient = 16

// runQueue holds the connections of a shard that have used their time slice and have more input. Connections with
// little input precede them: the queue advances by one entry each time the runtime has polled for readable sockets.
//
// The runtime does not poll as long as a goroutine can run, or only every 10 ms: a connection that continued on its
// own goroutine would block all others. The queue therefore wakes itself through a pipe, which is polled like the
// sockets.
type runQueue struct {
	upstreams    queueOf[runnable] // connections to backends
	clients      queueOf[runnable] // clients
	upstreamRuns int               // upstream connections to run before the next client
	r, w         *os.File          // nil means no pipe
	wfd          int
	woken        bool    // the pipe holds a byte
	byte         [1]byte // read buffer
	closed       bool
}

// runnable is an entry of a run queue.
type runnable interface {
	// runQueued is called once, with the shard locked.
	runQueued()
	// abandon is called instead of runQueued if the shard has dropped its connections.
	abandon()
}

// enqueue appends a connection. upstream reports whether it connects to a backend.
func (sh *shard) enqueue(w runnable, upstream bool) {
	q := &sh.runQueue
	switch {
	case q.r == nil || q.closed:
		sh.relay.wg.Go(func() {
			sh.enter()
			defer sh.leave()
			w.runQueued()
		})
		return
	case upstream:
		q.upstreams.push(w)
	default:
		q.clients.push(w)
	}
	q.wake()
}

// startRunQueue starts the queue. If it fails, each entry runs on its own goroutine.
func (sh *shard) startRunQueue() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	in, err := r.SyscallConn()
	if err == nil {
		var out syscall.RawConn
		if out, err = w.SyscallConn(); err == nil {
			err = out.Control(func(fd uintptr) { sh.runQueue.wfd = int(fd) })
		}
	}
	if err != nil {
		_, _ = r.Close(), w.Close()
		return err
	}
	sh.runQueue.r, sh.runQueue.w = r, w
	sh.relay.wg.Go(func() { _ = in.Read(sh.runNext) })
	return nil
}

// runNext runs the next entry. It returns true if the queue is closed.
func (sh *shard) runNext(fd uintptr) bool {
	sh.enter()
	defer sh.leave()
	q := &sh.runQueue
	if q.closed {
		return true
	}
	if !q.woken {
		return false
	}
	_, err := sysRead(int(fd), q.byte[:])
	q.woken = err != nil
	if w := q.next(); w != nil {
		w.runQueued()
	}
	if q.upstreams.len()+q.clients.len() > 0 {
		if q.wake(); q.woken {
			sh.coalesceWrites()
		}
	}
	return false
}

func (q *runQueue) wake() {
	if !q.woken {
		_, err := syscall.Write(q.wfd, []byte{0})
		q.woken = err == nil
	}
}

// next removes and returns the next entry; nil if the queue is empty.
func (q *runQueue) next() runnable {
	if q.upstreams.len() > 0 && (q.upstreamRuns > 0 || q.clients.len() == 0) {
		q.upstreamRuns--
		return q.upstreams.pop()
	}
	q.upstreamRuns = upstreamRunsPerClient
	return q.clients.pop()
}

// closeRunQueue ends the queue. Its entries run at once.
func (sh *shard) closeRunQueue() {
	q := &sh.runQueue
	sh.flushRunQueue()
	if q.r != nil {
		_, _ = q.r.Close(), q.w.Close()
	}
}

func (sh *shard) flushRunQueue() {
	sh.enter()
	defer sh.leave()
	q := &sh.runQueue
	q.closed = true
	for q.upstreams.len()+q.clients.len() > 0 {
		q.next().runQueued()
	}
}

// queueOf is a queue that reuses its memory.
type queueOf[T any] struct {
	all []T
	at  int // index of the first entry
}

func (q *queueOf[T]) len() int { return len(q.all) - q.at }
func (q *queueOf[T]) push(x T) { q.all = append(q.all, x) }

// pop removes and returns the first entry; the zero value if the queue is empty.
func (q *queueOf[T]) pop() (x T) {
	if q.len() == 0 {
		return x
	}
	q.all[q.at], x = x, q.all[q.at]
	if q.at++; 2*q.at >= len(q.all) {
		n := copy(q.all, q.all[q.at:])
		clear(q.all[n:])
		q.all, q.at = q.all[:n], 0
	}
	return x
}

// queueProbe waits in the run queue to measure its delay.
type queueProbe chan struct{}

func (t queueProbe) runQueued() { close(t) }
func (t queueProbe) abandon()   { close(t) }

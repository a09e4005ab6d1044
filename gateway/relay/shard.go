package relay

import (
	"sync"
	"syscall"
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// readBuffer is the maximum size of a read.
const readBuffer = 256 << 10

// shard is one lock over client connections and the upstream connections that their streams use. All their events are
// processed between enter and leave.
type shard struct {
	relay *Relay
	index int

	inbox       inbox
	locals      localEnds // downstreams in the process
	closed      bool      // no connection may start
	mu          sync.Mutex
	now         int64 // time of this turn, in nanoseconds since relay.epoch
	sensitiveAt int64 // last activity of a latency-sensitive connection; 0 means none
	until       int64 // end of the turn's time for input, on the same clock; 0 means none
	work        int   // since the last check of the clock in late
	ahead       int   // bytes preallocated for expected output in this turn
	acting      int   // active calls of the Handler into the relay
	buf         []byte
	iov         [][]byte
	iovecs      []syscall.Iovec
	record      []byte     // data of a record of TLS; nil before the first
	dirty       []*conn    // connections with output to write
	held        []*conn    // those of them whose output waits for more
	coalesce    bool       // another turn of the run queue follows, so output may wait for it
	since       int64      // start of the wait for more output
	deferred    []func()   // functions to run before this turn's flush
	ended       []*Stream  // to be reported and recycled at the end of this turn
	result      Result     // of the stream that is being reported
	suspects    []*rawLink // may have missed an end of file, see rawLink.read
	runQueue    runQueue
	stack       turnStack
	workers     webWorkers
	conns       map[*conn]struct{}
	pools       map[*Upstream]*pool
	wheel       wheel
	timer       *time.Timer
	timerAt     int64 // when timer fires; 0 means not set

	interner *hpack.Interner
	scratch  *hpack.List // header block being decoded
	consts   constFields
	buffers  bufferPool
	lists    []*hpack.List
	requests []*requestHead
	streams  []*Stream  // unused
	limiters []*limiter // unused
	queues   []*queue   // unused
	warm     [warmLedgers]*ledger
	nextWarm int
	buffered int64 // bytes in the streams' queues, and in headers of unanswered requests
}

const keepStreams = 1024

func newShard(r *Relay, index int) *shard {
	sh := &shard{relay: r, index: index}
	sh.fresh()
	sh.timer = time.AfterFunc(time.Hour, sh.tick)
	sh.timer.Stop()
	return sh
}

// fresh removes all connections. It keeps the relay, the lock, the run queue's pipe, and the wheel, which the caller
// has emptied.
func (sh *shard) fresh() {
	sh.acting, sh.sensitiveAt, sh.work, sh.timerAt = 0, 0, 0, 0
	sh.buf = make([]byte, frameHeaderLen+readBuffer)
	sh.iov, sh.iovecs, sh.dirty, sh.deferred, sh.ended, sh.suspects = nil, nil, nil, nil, nil, nil
	sh.held, sh.coalesce, sh.since, sh.ahead = nil, false, 0, 0
	sh.locals = localEnds{}
	sh.conns, sh.pools = map[*conn]struct{}{}, map[*Upstream]*pool{}
	sh.interner, sh.scratch = hpack.NewInterner(sh.relay.classify), new(hpack.List)
	sh.consts = newConstFields(sh.interner)
	sh.buffers, sh.lists, sh.streams, sh.limiters, sh.buffered = bufferPool{most: sh.relay.cfg.Memory.MaxKept}, nil,
		nil, nil, 0
	sh.requests, sh.queues = nil, nil
	for i, l := range sh.warm {
		if sh.warm[i] = nil; l != nil {
			l.forget()
		}
	}
}

// enter starts a turn. leave must be deferred.
func (sh *shard) enter() {
	sh.mu.Lock()
	sh.begin()
}

func (sh *shard) begin() { sh.now, sh.until, sh.acting, sh.coalesce = sh.clock(), 0, 0, false }

func (sh *shard) clock() int64 { return int64(time.Since(sh.relay.epoch)) }

// limitInput limits the input processing of this turn to one time slice.
func (sh *shard) limitInput() { sh.until = sh.now + sh.timeSlice() }

// over reports whether the turn's time for input has passed.
func (sh *shard) over() bool { return sh.until != 0 && sh.clock() > sh.until }

// late is over between two steps of a connection. Reading the clock costs more than many steps, and deferring large
// DATA frames costs more than forwarding them, so it checks the clock only after a certain amount of work.
func (sh *shard) late() bool {
	const enough = 64
	if sh.work++; sh.work < enough {
		return false
	}
	sh.work = 0
	return sh.over()
}

// blockWork is the weight of a header block in late; other steps have the weight 1.
const blockWork = 8

// leave ends a turn: it writes all output, once per connection. It must be deferred, because a panic in the turn would
// otherwise leave the shard locked and inconsistent.
func (sh *shard) leave() {
	if v := recover(); v != nil {
		sh.crashed(v)
	}
	sh.conclude()
	sh.unlock()
}

// conclude processes the inbox and writes the output. After a panic it continues with the remaining events.
func (sh *shard) conclude() {
	for !sh.concluded() {
	}
}

// concluded returns false after a panic.
func (sh *shard) concluded() (done bool) {
	defer func() {
		if v := recover(); v != nil {
			sh.crashed(v)
			done = sh.inbox.taken == nil
		}
	}()
	sh.drain()
	sh.settle()
	sh.restore()
	sh.arm()
	return true
}

// settle runs deferred functions, writes, and recycles, until nothing is left. It must run before sh.buf is reused.
func (sh *shard) settle() {
	for len(sh.deferred) > 0 || len(sh.dirty) > 0 {
		for i := 0; i < len(sh.deferred); i++ {
			sh.deferred[i]()
		}
		clear(sh.deferred)
		sh.deferred = sh.deferred[:0]
		for i := 0; i < len(sh.dirty); i++ {
			if c := sh.dirty[i]; sh.coalesce && c.waits() {
				sh.held = append(sh.held, c)
			} else {
				c.flush()
			}
		}
		clear(sh.dirty)
		sh.dirty = sh.dirty[:0]
	}
	if len(sh.held) > 0 {
		sh.dirty, sh.held = sh.held, sh.dirty
	} else {
		sh.ahead, sh.since = 0, 0
	}
	for i := 0; i < len(sh.ended); i++ {
		sh.recycle(sh.ended[i])
	}
	clear(sh.ended)
	sh.ended = sh.ended[:0]
}

// settleReads is settle between two reads of a turn.
func (sh *shard) settleReads() {
	sh.coalesce = true
	sh.settle()
	sh.coalesce = false
}

// maxCoalesce is the maximum time for which output waits for more while the run queue has entries and no connection is
// latency-sensitive.
const maxCoalesce = 4 * timeSlice

// coalesceWrites makes output wait for the next turn of the run queue, for fewer and larger writes.
func (sh *shard) coalesceWrites() {
	if sh.since == 0 {
		sh.since = sh.now
	}
	sh.coalesce = sh.timeSlice() == timeSlice && sh.now-sh.since < maxCoalesce
}

// waits reports whether the connection's output may wait for more.
func (c *conn) waits() bool {
	return c.out.size > 0 && c.out.size < outLimit && len(c.out.refs) == 0 && c.waiting.first == nil &&
		!c.blocked && !c.ending && (c.pool == nil || c.pool.queued == 0)
}

func (sh *shard) later(f func()) { sh.deferred = append(sh.deferred, f) }

// arm sets the timer for the next event of the wheel or of a suspect.
func (sh *shard) arm() {
	wait := sh.wheel.wait(sh.now)
	if len(sh.suspects) > 0 && (wait == 0 || wait > suspectDelay) {
		wait = suspectDelay
	}
	if wait == 0 {
		return
	}
	if at := sh.now + int64(wait); sh.timerAt == 0 || at < sh.timerAt {
		sh.timerAt = at
		sh.timer.Reset(wait)
	}
}

func (sh *shard) tick() {
	sh.enter()
	defer sh.leave()
	sh.timerAt = 0
	sh.wheel.run(sh.now)
	sh.limitInput()
	suspects := sh.suspects
	sh.suspects = nil
	for i, l := range suspects {
		if sh.over() {
			sh.suspects = append(sh.suspects, suspects[i:]...)
			break
		}
		l.suspect = false
		l.come()
		sh.settle()
	}
}

func (sh *shard) newList() *hpack.List {
	if n := len(sh.lists); n > 0 {
		l := sh.lists[n-1]
		sh.lists = sh.lists[:n-1]
		return l
	}
	return new(hpack.List)
}

func (sh *shard) freeList(l *hpack.List) {
	if len(sh.lists) < keepStreams {
		l.Reset()
		sh.lists = append(sh.lists, l)
	}
}

// keepScratch moves the decoded block to its stream.
func (sh *shard) keepScratch() *hpack.List {
	l := sh.scratch
	sh.scratch = sh.newList()
	return l
}

func (sh *shard) newStream() *Stream {
	if n := len(sh.streams); n > 0 {
		s := sh.streams[n-1]
		sh.streams = sh.streams[:n-1]
		return s
	}
	s := &Stream{sh: sh}
	s.timer.expired = s.expire
	s.down.stream, s.up.stream = s, s
	return s
}

// reportDone reports the stream, unless it was already reported.
func (s *Stream) reportDone() {
	if s.announced {
		s.callDone()
	}
}

// recycle reports an ended stream and resets it for another call.
func (sh *shard) recycle(s *Stream) {
	s.reporting = false
	s.reportDone()
	if s.lingers && s.phase != over {
		s.dropHead() // it is no longer charged
		return
	}
	s.reset()
	if len(sh.streams) < keepStreams {
		sh.streams = append(sh.streams, s)
	}
}

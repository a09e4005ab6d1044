package relay

import (
	"sync"
	"syscall"
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// readBuffer is how much one read takes at the most.
const readBuffer = 256 << 10

// shard is one lock over client connections and the upstream connections that
// their streams use. Whatever happens to them happens between enter and leave.
type shard struct {
	relay *Relay
	index int

	inbox       inbox
	locals      localEnds // downstreams in the process
	closed      bool      // none begins any more
	mu          sync.Mutex
	now         int64 // nanoseconds since relay.epoch, of this turn
	sensitiveAt int64 // when a latency-sensitive connection was active last; 0 means none was
	until       int64 // when input is to be put off, on the same clock; 0 means never
	work        int   // since late looked at the clock
	ahead       int   // bytes of room made for output that is expected in this turn
	acting      int   // calls of the Handler's into the relay that have not returned
	buf         []byte
	iov         [][]byte
	iovecs      []syscall.Iovec
	dirty       []*conn    // have output to write
	held        []*conn    // of these, while the others are written: have output that waits for more
	coalesce    bool       // another turn of the run queue follows this one: output may wait for it
	since       int64      // when output began to wait so
	deferred    []func()   // run before this turn's flush
	ended       []*Stream  // to be reported and recycled at the end of this turn
	suspects    []*rawLink // may have missed an end of file, see rawLink.read
	runQueue    runQueue
	workers     webWorkers
	conns       map[*conn]struct{}
	pools       map[*Upstream]*pool
	wheel       wheel
	timer       *time.Timer
	timerAt     int64 // when timer fires; 0 when it is not set

	interner *hpack.Interner
	scratch  *hpack.List // the header block being decoded
	consts   constFields
	buffers  bufferPool
	lists    []*hpack.List
	edits    [][]edit
	streams  []*Stream  // free
	limiters []*limiter // free
	warm     [warmLedgers]*ledger
	nextWarm int
	buffered int64 // bytes in the streams' queues, and of unanswered requests' headers
}

const keepStreams = 1024

func newShard(r *Relay, index int) *shard {
	sh := &shard{relay: r, index: index}
	sh.fresh()
	sh.timer = time.AfterFunc(time.Hour, sh.tick)
	sh.timer.Stop()
	return sh
}

// fresh makes it a shard without connections. What is not state stays: the relay, the lock, the run
// queue's pipe, and the wheel, which the caller has emptied.
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
	sh.edits = nil
	for i, l := range sh.warm {
		if sh.warm[i] = nil; l != nil {
			l.forget()
		}
	}
}

// enter begins a turn. Its leave is to be deferred.
func (sh *shard) enter() {
	sh.mu.Lock()
	sh.begin()
}

func (sh *shard) begin() { sh.now, sh.until, sh.acting, sh.coalesce = sh.clock(), 0, 0, false }

func (sh *shard) clock() int64 { return int64(time.Since(sh.relay.epoch)) }

// limitInput lets this turn process input for one time slice.
func (sh *shard) limitInput() { sh.until = sh.now + sh.timeSlice() }

// over says that the turn's time for input is over.
func (sh *shard) over() bool { return sh.until != 0 && sh.clock() > sh.until }

// late is over between two steps of a connection. The clock costs more than many a step, and to
// put off large frames of DATA more than to pass them on: it looks after so much work.
func (sh *shard) late() bool {
	const enough = 64
	if sh.work++; sh.work < enough {
		return false
	}
	sh.work = 0
	return sh.over()
}

// blockWork is what a header block counts in late, where other steps count 1.
const blockWork = 8

// leave ends a turn: everything that it brought about is written, once per connection. It is to be deferred,
// or a panic in the turn would leave the shard locked and half changed.
func (sh *shard) leave() {
	if v := recover(); v != nil {
		sh.crashed(v)
	}
	sh.conclude()
	sh.unlock()
}

// conclude deals with the inbox and writes. After a panic it goes on with the events that are left.
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

// settle runs what was put off, writes, and recycles, until nothing is left to do.
// It must run before sh.buf is read into again.
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

// maxCoalesce is how long output waits for more while the run queue has entries and no connection is
// latency-sensitive.
const maxCoalesce = 4 * timeSlice

// coalesceWrites lets output wait for the next turn of the run queue, which follows: fewer and longer writes.
func (sh *shard) coalesceWrites() {
	if sh.since == 0 {
		sh.since = sh.now
	}
	sh.coalesce = sh.timeSlice() == timeSlice && sh.now-sh.since < maxCoalesce
}

// waits tells that the connection's output may wait for more.
func (c *conn) waits() bool {
	return c.out.size > 0 && c.out.size < outLimit && len(c.out.refs) == 0 && c.waiting.first == nil &&
		!c.blocked && !c.ending && (c.pool == nil || c.pool.queued == 0)
}

func (sh *shard) later(f func()) { sh.deferred = append(sh.deferred, f) }

// arm sets the timer for the next thing that the wheel or a suspect needs.
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

// commonEdits is how many headers of a request a Handler mostly edits at the most.
const commonEdits = 8

func (sh *shard) newEdits() []edit {
	if n := len(sh.edits); n > 0 {
		e := sh.edits[n-1]
		sh.edits = sh.edits[:n-1]
		return e
	}
	return make([]edit, 0, commonEdits)
}

func (sh *shard) freeEdits(e []edit) {
	clear(e)
	if len(sh.edits) < keepStreams {
		sh.edits = append(sh.edits, e[:0])
	}
}

// keepScratch hands the block just decoded over to its stream.
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
	s.parking = newParking(s)
	s.timer.expired = s.expire
	s.down.stream, s.up.stream = s, s
	return s
}

// reportDone reports the stream, unless it was reported.
func (s *Stream) reportDone() {
	if s.announced {
		s.result.Ended = time.Duration(s.sh.now) - s.began
		s.callDone()
	}
}

// recycle reports a stream that has ended and makes it ready for another call.
func (sh *shard) recycle(s *Stream) {
	s.reporting = false
	s.reportDone()
	if s.lingers && s.phase != over {
		s.dropHead() // which is not charged any more
		return
	}
	s.reset()
	if len(sh.streams) < keepStreams {
		sh.streams = append(sh.streams, s)
	}
}

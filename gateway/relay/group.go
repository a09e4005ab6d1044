package relay

import (
	"sync/atomic"
	"time"
)

// Group is what some streams have in common: how fast their bytes may come, and how many of
// those that are held may be theirs. It belongs to one Relay.
//
// A client that exceeds its rate is not rejected: its flow-control window is replenished later. The connection's
// window is replenished at once, so that other streams do not wait (RFC 9113 §5.2.1).
type Group struct {
	relay  *Relay
	nanos  atomic.Int64 // that a mebibyte takes; 0 means no time
	only   atomic.Bool  // streams that are too fast are reported, and not slowed
	due    atomic.Int64 // on the shards' clock, when all that came may have come
	slowed func()
	shards []groupShard

	account Account // of what its streams hold; nil means that is not bounded
}

// groupShard is a Group's part of a shard, under its lock.
type groupShard struct {
	ledger      ledger // of what its streams hold
	held        int64  // bytes in the queues of those that joined
	paid        int    // bytes that are paid for, and that any stream of the group may bring
	first, last *meter
	timer       timer
	moved       atomic.Int64 // bytes of DATA, both ways together, since the start
	_           [8]byte
}

const (
	// lead is how much may come at once after a pause, as time at the group's rate.
	lead = int64(250 * time.Millisecond)
	// slice is the part of its rate that a group gives back to one stream before it is
	// another's turn, as time; at least leastSlice bytes.
	slice      = int64(20 * time.Millisecond)
	leastSlice = 2 << 10
	// shadowMost is how far behind a group may be that is not held up: what would not have come
	// must not count for long, and least of all when it is held up from then on.
	shadowMost = int64(2 * time.Second)
	// lookAgain is after how long those that wait are looked at again: the rate may be another.
	lookAgain = int64(time.Second)
)

// NewGroup makes a group without limits. slowed is called when a stream has to wait for its
// window the first time, with the stream's shard locked. account is what its streams may hold. Both may be nil.
func (r *Relay) NewGroup(slowed func(), account Account) *Group {
	g := &Group{relay: r, slowed: slowed, account: account, shards: make([]groupShard, len(r.shards))}
	for i, sh := range r.shards {
		g.shards[i].ledger = ledger{account: account, step: groupStep, keeps: account != nil}
		g.shards[i].timer.expired = func() { g.serve(sh) }
	}
	return g
}

// Moved returns the bytes of DATA that the group's streams brought and got, both ways together, since the start.
func (g *Group) Moved() (n int64) {
	for i := range g.shards {
		n += g.shards[i].moved.Load()
	}
	return n
}

// moved counts n bytes of DATA that went on.
func (s *Stream) moved(n int) {
	if s.group != nil {
		s.group.shards[s.sh.index].moved.Add(int64(n))
	}
}

// SetRate lets so many bytes of DATA come a second, both ways together; 0 means any number. With
// shadow none is held up. Streams that were there without a rate have none. What came before
// takes no longer than by the faster of the two rates.
func (g *Group) SetRate(bytes int64, shadow bool) {
	var nanos int64
	if bytes > 0 {
		nanos = max(int64(float64(1<<20)*float64(time.Second)/float64(bytes)), 1)
	}
	g.only.Store(shadow)
	before := g.nanos.Swap(nanos)
	if before == 0 || nanos >= before {
		return
	}
	now := int64(time.Since(g.relay.epoch))
	for {
		due := g.due.Load()
		if due <= now || g.due.CompareAndSwap(due, now+int64(float64(due-now)*float64(nanos)/float64(before))) {
			return
		}
	}
}

// Behind is how long it takes until all that came may have come; 0 or less: no time.
func (g *Group) Behind() time.Duration {
	if g.nanos.Load() == 0 {
		return 0
	}
	return time.Duration(g.due.Load() - int64(time.Since(g.relay.epoch)))
}

// pay takes n bytes off the budget.
func (g *Group) pay(now int64, n int) {
	nanos := g.nanos.Load()
	if nanos == 0 || n == 0 {
		return
	}
	took := int64(float64(n) * float64(nanos) / (1 << 20))
	for {
		due := g.due.Load()
		next := max(due, now-lead) + took
		if g.only.Load() {
			next = min(next, max(due, now+shadowMost))
		}
		if g.due.CompareAndSwap(due, next) {
			return
		}
	}
}

// payAhead is what a shard pays for before it comes: so much time at the group's rate, and so many bytes. Each
// payment is an atomic operation that the shards share, and most messages are small.
const (
	payAhead     = int64(time.Millisecond)
	mostPayAhead = 16 << 10
)

// charge pays for n bytes that came on a shard, and a little ahead, so that the next few are paid for.
func (g *Group) charge(sh *shard, n int) {
	at := &g.shards[sh.index]
	if n <= at.paid {
		at.paid -= n
		return
	}
	ahead := 0
	if nanos := g.nanos.Load(); nanos != 0 {
		ahead = int(min(payAhead*(1<<20)/nanos, mostPayAhead))
	}
	g.pay(sh.now, n-at.paid+ahead)
	at.paid = ahead
}

// refund gives back what was paid for n bytes that will not come.
func (g *Group) refund(n int) {
	if n > 0 {
		g.due.Add(-int64(float64(n) * float64(g.nanos.Load()) / (1 << 20)))
	}
}

func (g *Group) late(now int64) bool { return g.nanos.Load() != 0 && g.due.Load() > now }

// Join makes the stream one of a group. Call it once, before Forward.
func (s *Stream) Join(g *Group) {
	s.group = g
	g.shards[s.sh.index].held += int64(s.held)
	s.moved(int(s.result.BytesIn))
	if g.nanos.Load() != 0 {
		s.limits().group = g
		s.limit.in.arrived(len(s.up.queue.buf))
	}
}

// arrived pays for n bytes that came, unless that was done before.
func (m *meter) arrived(n int) {
	if n <= m.prepaid {
		m.prepaid -= n
		return
	}
	s := m.half.stream
	s.limit.group.charge(s.sh, n-m.prepaid)
	m.prepaid = 0
}

// leave takes a meter out of what it is in.
func (m *meter) leave() {
	if m.half == nil {
		return
	}
	s := m.half.stream
	g := s.limit.group
	if g == nil {
		return
	}
	g.refund(m.prepaid)
	m.prepaid = 0
	if m.waits {
		g.shards[s.sh.index].remove(m)
	}
}

// paced says that the window that a half is owed is given back later. Only streams that are
// under way wait: a first message is limited otherwise, and what nobody takes any more costs
// nothing.
func (h *half) paced() bool {
	s := h.stream
	if s.limit == nil || s.limit.group == nil || s.phase != forwarded {
		return false
	}
	g, m := s.limit.group, s.limit.meter(h)
	if m.waits {
		return true
	}
	at := &g.shards[s.sh.index]
	late := at.first != nil || g.late(s.sh.now)
	if late && !s.limit.slowed && g.slowed != nil {
		g.slowed()
		s.limit.slowed = true
	}
	if late && !g.only.Load() {
		at.push(m)
		g.serve(s.sh)
		return true
	}
	g.pay(s.sh.now, h.uncredited)
	m.prepaid += h.uncredited
	return false
}

// serve gives window back to those that wait, in turn, as long as the budget lasts.
func (g *Group) serve(sh *shard) {
	at := &g.shards[sh.index]
	for at.first != nil {
		if g.late(sh.now) && !g.only.Load() {
			sh.wheel.set(&at.timer, min(g.due.Load(), sh.now+lookAgain))
			return
		}
		m := at.first
		at.remove(m)
		h := m.half
		if h.transport == nil || h.gotEnd || h.uncredited == 0 {
			continue
		}
		n := h.uncredited
		if nanos := g.nanos.Load(); nanos > 0 {
			n = int(min(int64(n), max(slice*(1<<20)/nanos, leastSlice)))
		}
		g.pay(sh.now, n)
		m.prepaid += n
		h.grant(n)
		if h.uncredited >= sh.relay.cfg.HTTP2.StreamWindow/2 {
			at.push(m)
		}
	}
	sh.wheel.clear(&at.timer)
}

func (at *groupShard) push(m *meter) {
	m.waits, m.prev = true, at.last
	if at.last != nil {
		at.last.then = m
	} else {
		at.first = m
	}
	at.last = m
}

func (at *groupShard) remove(m *meter) {
	if m.prev != nil {
		m.prev.then = m.then
	} else {
		at.first = m.then
	}
	if m.then != nil {
		m.then.prev = m.prev
	} else {
		at.last = m.prev
	}
	m.waits, m.prev, m.then = false, nil, nil
}

// groupReserve is how many times what is free of a shard's memory for held bytes a group may
// have: what one group does not read must not take the room of all.
const groupReserve = 4

// groupOverBuffer says that a group holds more than its part.
func (s *Stream) groupOverBuffer() bool {
	if s.group == nil {
		return false
	}
	free := s.sh.relay.cfg.Memory.MaxBuffered - s.sh.buffered
	return s.group.shards[s.sh.index].held > groupReserve*free
}

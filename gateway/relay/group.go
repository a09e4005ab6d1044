package relay

import (
	"sync/atomic"
	"time"
)

// Group is a set of streams that share a rate and a limit of held bytes. It belongs to one Relay.
//
// A client that exceeds its rate is not rejected: its flow-control window is replenished later. The connection's
// window is replenished at once, so that other streams do not wait (RFC 9113 §5.2.1).
type Group struct {
	relay  *Relay
	nanos  atomic.Int64 // per mebibyte; 0 means no limit
	only   atomic.Bool  // shadow mode: fast streams are reported, but not slowed
	due    atomic.Int64 // on the shards' clock: when all received bytes are within the rate
	slowed func()
	shards []groupShard

	account Account // for what its streams hold; nil means no limit
}

// groupShard is a Group's state in a shard, under the shard's lock.
type groupShard struct {
	ledger      ledger // of its streams
	held        int64  // bytes in the queues of streams that joined
	paid        int    // bytes that are charged in advance for any stream of the group
	first, last *meter
	timer       timer
	moved       atomic.Int64 // bytes of DATA in both directions since the start
	_           [8]byte
}

const (
	// lead is the burst allowed after a pause, as time at the group's rate.
	lead = int64(250 * time.Millisecond)
	// slice is the part of the rate that a group replenishes for one stream before the next one, as time; at least
	// leastSlice bytes.
	slice      = int64(20 * time.Millisecond)
	leastSlice = 2 << 10
	// shadowMost is the maximum time by which a group in shadow mode may fall behind. Otherwise bytes above the rate
	// would count for long once the limit is enforced.
	shadowMost = int64(2 * time.Second)
	// lookAgain is the interval in which waiting streams are checked again, because the rate may have changed.
	lookAgain = int64(time.Second)
)

// NewGroup returns a group without limits. slowed is called when a stream must wait for its window the first time,
// with the stream's shard locked. account is charged for its streams. Both may be nil.
func (r *Relay) NewGroup(slowed func(), account Account) *Group {
	g := &Group{relay: r, slowed: slowed, account: account, shards: make([]groupShard, len(r.shards))}
	for i, sh := range r.shards {
		g.shards[i].ledger = ledger{account: account, step: groupStep, keeps: account != nil}
		g.shards[i].timer.expired = func() { g.serve(sh) }
	}
	return g
}

// Moved returns the bytes of DATA that the group's streams sent and received since the start.
func (g *Group) Moved() (n int64) {
	for i := range g.shards {
		n += g.shards[i].moved.Load()
	}
	return n
}

// moved counts n forwarded bytes of DATA.
func (s *Stream) moved(n int) {
	if s.group != nil {
		s.group.shards[s.sh.index].moved.Add(int64(n))
	}
}

// SetRate limits the bytes of DATA per second in both directions; 0 means no limit. In shadow mode, streams are not
// slowed. Existing streams that joined without a rate stay unlimited. Bytes received before are counted at the faster
// of the two rates.
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

// Behind returns the time until all received bytes are within the rate. It is at most 0 if the group is not behind.
func (g *Group) Behind() time.Duration {
	if g.nanos.Load() == 0 {
		return 0
	}
	return time.Duration(g.due.Load() - int64(time.Since(g.relay.epoch)))
}

// pay charges n bytes to the budget.
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

// Amounts that a shard charges in advance: time at the group's rate, and bytes. Each charge is an atomic operation
// shared by all shards, and most messages are small.
const (
	payAhead     = int64(time.Millisecond)
	mostPayAhead = 16 << 10
)

// charge charges n bytes received on a shard, and a small advance for the next ones.
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

// refund returns the charge for n bytes that will not arrive.
func (g *Group) refund(n int) {
	if n > 0 {
		g.due.Add(-int64(float64(n) * float64(g.nanos.Load()) / (1 << 20)))
	}
}

func (g *Group) late(now int64) bool { return g.nanos.Load() != 0 && g.due.Load() > now }

// Join adds the stream to a group, and returns Behind of the group. It may be called once, before Forward.
func (s *Stream) Join(g *Group) (behind time.Duration) {
	s.group = g
	g.shards[s.sh.index].held += int64(s.held)
	s.moved(int(s.result.BytesIn))
	if g.nanos.Load() != 0 {
		s.limits().group = g
		s.limit.in.arrived(len(s.up.queue.bytes()))
		behind = time.Duration(g.due.Load() - s.sh.now)
	}
	return behind
}

// arrived charges n received bytes, unless they were charged in advance.
func (m *meter) arrived(n int) {
	if n <= m.prepaid {
		m.prepaid -= n
		return
	}
	s := m.half.stream
	s.limit.group.charge(s.sh, n-m.prepaid)
	m.prepaid = 0
}

// leave removes a meter from its lists.
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

// paced reports whether a half's window is replenished later. Only open streams wait: first messages have other
// limits, and ended streams have no cost.
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
	g.pay(s.sh.now, int(h.uncredited))
	m.prepaid += int(h.uncredited)
	return false
}

// serve replenishes the windows of waiting streams in turn, as far as the budget allows.
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
		n := int(h.uncredited)
		if nanos := g.nanos.Load(); nanos > 0 {
			n = int(min(int64(n), max(slice*(1<<20)/nanos, leastSlice)))
		}
		g.pay(sh.now, n)
		m.prepaid += n
		h.grant(n)
		if int(h.uncredited) >= sh.relay.cfg.HTTP2.StreamWindow/2 {
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

// groupReserve limits a group to a multiple of a shard's free memory for held bytes, so that unread data of one group
// does not take all of it.
const groupReserve = 4

// groupOverBuffer reports whether a group holds more than its part.
func (s *Stream) groupOverBuffer() bool {
	if s.group == nil {
		return false
	}
	free := s.sh.relay.cfg.Memory.MaxBuffered - s.sh.buffered
	return s.group.shards[s.sh.index].held > groupReserve*free
}

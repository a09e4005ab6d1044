package relay

// Account is what one owner may hold of the process' memory, in bytes. It is safe for concurrent use, takes no lock and
// does not block.
type Account interface {
	Reserve(n int64) bool // takes n more, or nothing
	Force(n int64)        // takes n more, whether there is room or not
	Release(n int64)      // gives n back
}

// ledger is what one shard holds on an Account. It reserves in steps, so that most changes are an addition under the
// shard's lock.
type ledger struct {
	account  Account // nil: nothing is bounded
	step     int64
	held     int64
	reserved int64

	keeps bool // a step, when nothing is held: it is in shard.warm then
	warm  bool
}

// warmLedgers is how many groups of a shard keep a step of what they held last: one that calls once in a while would
// reserve and release for each call.
const warmLedgers = 16

// cool has a group keep a step that holds nothing now, and the one that did so longest ago no more.
func (sh *shard) cool(l *ledger) {
	if l.held != 0 || l.reserved == 0 || l.warm {
		return
	}
	old := sh.warm[sh.nextWarm]
	sh.warm[sh.nextWarm], l.warm = l, true
	sh.nextWarm = (sh.nextWarm + 1) % warmLedgers
	if old == nil {
		return
	}
	if old.warm = false; old.held == 0 {
		old.account.Release(old.reserved)
		old.reserved = 0
	}
}

// Steps of ledgers, in bytes: of a group in a shard, and of a connection, of which there may be very many.
const (
	groupStep = 32 << 10
	connStep  = 4 << 10
)

// spareSteps is how many steps a ledger keeps beyond what it holds.
const spareSteps = 4

// What is held for a stream besides its bytes.
const (
	streamCost = 2 << 10  // the Stream, and what its Handler remembers
	webCost    = 32 << 10 // a goroutine of the http.Handler's server with its buffers
	webHeads   = 3        // how often the headers of a request are there for the http.Handler
)

// add holds n bytes more, or nothing if there is no room for them. Fewer always succeeds.
func (l *ledger) add(n int64) bool {
	held := l.held + n
	if l.account == nil {
		l.held = held
		return true
	}
	if more := held - l.reserved; more > 0 {
		if whole := (more + l.step - 1) / l.step * l.step; l.account.Reserve(whole) {
			more = whole
		} else if !l.account.Reserve(more) {
			return false
		}
		l.reserved += more
	}
	l.held = held
	l.shrink()
	return true
}

// force holds n bytes more.
func (l *ledger) force(n int64) {
	l.held += n
	if more := l.held - l.reserved; l.account != nil && more > 0 {
		l.account.Force(more)
		l.reserved += more
	}
}

// forget holds nothing any more.
func (l *ledger) forget() {
	if l.account != nil {
		l.account.Release(l.reserved)
	}
	l.held, l.reserved, l.warm = 0, 0, false
}

// shrink gives back what was reserved and is not held.
func (l *ledger) shrink() {
	keep := l.held + l.step
	if l.held == 0 && !l.keeps {
		keep = 0
	}
	if l.reserved-l.held > spareSteps*l.step || l.held == 0 && l.reserved > keep {
		l.account.Release(l.reserved - keep)
		l.reserved = keep
	}
}

// move has another account hold what the ledger does, if it has room.
func (l *ledger) move(to Account) {
	if to == nil || l.account == nil || !to.Reserve(l.reserved) {
		return
	}
	l.account.Release(l.reserved)
	l.account = to
}

// claim charges what the shards hold for all: what they read into, and buffers that they keep.
func (r *Relay) claim() {
	if r.cfg.Account == nil {
		return
	}
	if account := r.cfg.Account(nil); account != nil {
		account.Force(int64(len(r.shards)) * int64(readBuffer+r.cfg.MaxKept))
	}
}

// Charge has a group hold what is held for the stream; without, it is held for the client of its connection. It says
// whether there was room; without, the stream is to be refused. Call it once, before Forward; Config.Web may.
func (s *Stream) Charge(g *Group) bool {
	if s.ledger != nil {
		s.ledger.add(-s.charged)
		s.charged = 0
	}
	s.ledger = &g.shards[s.sh.index].ledger
	if c := s.down.conn; !c.adopted && !c.peer.Internal {
		c.adopted = true
		c.own.move(g.account)
	}
	return s.recount()
}

// chargeClient charges the stream to the client of its connection, if it is not a group's. Where there is no room it
// ends the stream, and returns false.
func (s *Stream) chargeClient() bool {
	if s.phase == over {
		return true
	}
	if s.ledger == nil {
		s.ledger = &s.down.conn.strangers
	}
	if s.recount() {
		return true
	}
	s.fail(AccountExceeded)
	return false
}

// recount charges what the stream holds now. It returns false, and changes nothing, if there is no room for that.
func (s *Stream) recount() bool {
	if s.ledger == nil {
		return true
	}
	n := int64(streamCost + s.headSize + cap(s.up.queue.buf) + cap(s.down.queue.buf))
	if !s.grpc {
		n += int64(webCost + (webHeads-1)*s.headSize)
	}
	if n == s.charged {
		return true
	}
	if !s.ledger.add(n - s.charged) {
		return false
	}
	s.charged = n
	return true
}

// release gives up all that the stream was charged.
func (s *Stream) release() {
	if l := s.ledger; l != nil {
		l.add(-s.charged)
		s.ledger, s.charged = nil, 0
		s.sh.cool(l)
	}
}

// mostForced is what a connection may hold for itself when its owner has no room, in bytes.
const mostForced = 64 << 10

// recount charges what the connection holds for itself: input that cannot be dealt with yet, and output that its peer
// has not taken. Where there is no room a client is cut off that does not read, and one that is no group's.
func (c *conn) recount() {
	input := cap(c.partial) + cap(c.block.buf) + cap(c.backlog)
	n := int64(input + c.unsent)
	more := n - c.charged
	if more == 0 {
		return
	}
	if c.charged = n; c.own.add(more) {
		return
	}
	c.own.force(more)
	if c.unsent > mostForced || !c.adopted && input > mostForced {
		c.sh.later(func() { c.fail(&connError{errEnhanceYourCalm, "too much is held for this client"}) })
	}
}

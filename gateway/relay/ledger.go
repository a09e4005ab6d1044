package relay

import "github.com/capgate/capgate/gateway/relay/accept"

// ledger is what one shard holds on an Account. It reserves in steps, so that most changes are an addition under the
// shard's lock.
type ledger struct {
	account  Account // nil means nothing is bounded
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

// streamCost is the fixed bytes of a stream: the Stream, and its Value.
const streamCost = 2 << 10

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

// ShardCost is what a shard holds for all, in bytes: what it reads into, as much for what a turn makes of that before
// it is charged, and the buffers that it keeps.
func ShardCost(kept int) int64 { return int64(2*readBuffer + kept) }

// claim charges what the shards hold for all.
func (r *Relay) claim() {
	if r.cfg.Memory.Client == nil {
		return
	}
	account := r.cfg.Memory.Client(nil)
	if account != nil && !account.Reserve(int64(len(r.shards))*ShardCost(r.cfg.Memory.MaxKept)) {
		r.cfg.Log.Error("there is less memory than shards need: set fewer shards, or more memory", "shards",
			len(r.shards))
	}
}

// accountOf returns the account of a connection: that of an upstream, or of a client.
func (r *Relay) accountOf(p *pool, peer *Peer) Account {
	switch cfg := &r.cfg; {
	case p != nil:
		return p.upstream.account()
	case cfg.Memory.Client != nil:
		return cfg.Memory.Client(peer)
	}
	return nil
}

// account returns the account of connections to the upstream.
func (u *Upstream) account() Account {
	if of := u.relay.cfg.Memory.Upstream; of != nil {
		return of(u.cfg.Addr)
	}
	return nil
}

// cost returns the bytes that a connection to the upstream takes.
func (u *Upstream) cost() int64 {
	if u.tls.Load() != nil {
		return accept.ConnBytes + accept.CopiedBytes
	}
	return accept.ConnBytes
}

// Charge has a group hold what is held for the stream; without, it is held for the client of its connection. It says
// whether there was room; without, the stream is to be refused. Call it once, before Forward; Config.Web may.
func (s *Stream) Charge(g *Group) bool {
	if s.ledger != nil {
		s.ledger.add(-s.charged)
		s.charged = 0
	}
	s.chargeTo(g)
	s.client.setGroup(g)
	return s.recount()
}

// chargeTo has the group hold what is charged from now on.
func (s *Stream) chargeTo(g *Group) {
	s.charges, s.ledger = g, &g.shards[s.sh.index].ledger
}

// chargeClient charges the stream to the client of its connection, if it is not a group's. Where there is no room it
// ends the stream, and returns false.
func (s *Stream) chargeClient() bool {
	if s.phase == over {
		return true
	}
	if s.ledger == nil {
		s.ledger = s.client.ledger()
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
	n := int64(streamCost + s.headSize + s.inside + cap(s.up.queue.buf) + cap(s.down.queue.buf))
	if !s.grpc {
		n += int64(accept.RequestBytes + (accept.HeaderCopies-1)*s.headSize)
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
		s.ledger, s.charges, s.charged = nil, nil, 0
		s.sh.cool(l)
	}
}

// charge is what of the connection's input and output its accept.ConnBytes does not cover.
func (c *conn) charge(input int) int64 { return max(int64(input+c.unsent-accept.FreeBytes), 0) }

func (c *conn) input() int { return cap(c.partial) + cap(c.block.buf) + cap(c.backlog) }

// recount charges what the connection holds for itself: input that cannot be dealt with yet, and output that its peer
// has not taken. Where there is no room it lets go of both: a peer that reads, and sends whole frames, has no more
// than accept.FreeBytes.
func (c *conn) recount() {
	n := c.charge(c.input())
	if n == c.charged {
		return
	}
	if c.own.add(n - c.charged) {
		c.charged = n
		return
	}
	c.sh.later(func() {
		switch n := c.charge(c.input()); {
		case n == c.charged, c.closed:
		case c.own.add(n - c.charged):
			c.charged = n
		case c.unsent > accept.FreeBytes:
			c.lost(accept.ErrNoMemory)
		default:
			c.forgetInput()
			c.recount()
			c.fail(&connError{errEnhanceYourCalm, "too much is held for this client"})
		}
	})
}

// forgetInput is for a connection that ends.
func (c *conn) forgetInput() {
	for _, b := range []*[]byte{&c.partial, &c.block.buf, &c.backlog} {
		c.sh.buffers.put(*b)
		*b = nil
	}
}

// putsOff reports whether n bytes of input may wait for another turn: there has to be room for them.
func (c *conn) putsOff(n int) bool {
	held := c.charge(c.input() + 2*n) // a buffer is no more than twice what is in it, or of the least size
	if held > c.charged && !c.own.add(held-c.charged) {
		return false
	}
	c.charged = max(held, c.charged)
	return true
}

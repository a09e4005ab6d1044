package relay

import "github.com/capgate/capgate/gateway/relay/accept"

// ledger is a shard's reservation with an Account. It reserves in steps, so that most changes are an addition under
// the shard's lock.
type ledger struct {
	account  Account // nil means no limit
	step     int64
	held     int64
	reserved int64

	keeps bool // keeps a step when nothing is held, and is in shard.warm then
	warm  bool
}

// warmLedgers is the number of a shard's groups that keep their last step, so that infrequent callers do not reserve
// and release for each call.
const warmLedgers = 16

// cool makes a group keep a step without holding anything, and drops the step of the group that has kept one the
// longest.
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

// spareSteps is the number of steps that a ledger keeps beyond what it holds.
const spareSteps = 4

// streamCost is the fixed cost of a stream, in bytes: the Stream and its Value.
const streamCost = 2 << 10

// Additional cost of a response without a goroutine, in bytes.
const (
	lastingBytes = 14 << 10 // the request with headers of freeHeaders, and the state of what writes the response
	freeHeaders  = 2 << 10
	headerBytes  = 128 // for a header field in an http.Header, besides its name and value
)

// add adds n bytes to what is held, or returns false if there is no room. A negative n always succeeds.
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

// forget drops everything held.
func (l *ledger) forget() {
	if l.account != nil {
		l.account.Release(l.reserved)
	}
	l.held, l.reserved, l.warm = 0, 0, false
}

// shrink releases reserved bytes that are not held.
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

// move transfers the reservation to another account, if that has room.
func (l *ledger) move(to Account) {
	if to == nil || l.account == nil || !to.Reserve(l.reserved) {
		return
	}
	l.account.Release(l.reserved)
	l.account = to
}

// ShardCost returns the fixed memory of a shard, in bytes: its read buffer, as much for the results of a turn before
// they are charged, a record of TLS, and the unused buffers.
func ShardCost(kept int) int64 { return int64(2*readBuffer + tlsRecord + kept) }

// claim charges the fixed memory of all shards.
func (r *Relay) claim() {
	if r.cfg.Memory.Client == nil {
		return
	}
	account := r.cfg.Memory.Client(nil)
	if account != nil && !account.Reserve(int64(len(r.shards))*ShardCost(r.cfg.Memory.MaxKept)) {
		r.cfg.Log.Error("the shards need more memory: use fewer shards, or increase the memory", "shards",
			len(r.shards))
	}
}

// accountOf returns the account of a connection, of an upstream or a client.
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

// cost returns the cost of a connection to the upstream, in bytes.
func (u *Upstream) cost() int64 {
	if u.tls.Load() != nil {
		return accept.ConnBytes + accept.CopiedBytes
	}
	return accept.ConnBytes
}

// Charge charges the stream's memory to a group instead of the client of its connection. It returns false if there is
// no room; the stream must then be refused. It may be called once, before Forward; Config.Web may call it.
func (s *Stream) Charge(g *Group) bool {
	s.uncharge()
	s.payer = g
	s.client.setGroup(g)
	return s.charge()
}

// ledger returns the ledger that the stream is charged to.
func (s *Stream) ledger() *ledger {
	if s.payer != nil {
		return &s.payer.shards[s.sh.index].ledger
	}
	return s.client.ledger()
}

// chargeClient charges the stream to the client of its connection, unless it belongs to a group. If there is no room,
// it ends the stream and returns false.
func (s *Stream) chargeClient() bool {
	if s.phase == over {
		return true
	}
	if s.charge() {
		return true
	}
	s.fail(AccountExceeded)
	return false
}

// recount updates the charge of a stream that is charged already. It returns false without a change if there is no
// room.
func (s *Stream) recount() bool { return s.charged == 0 || s.charge() }

// charge is recount, and begins to charge the stream.
func (s *Stream) charge() bool {
	n := int64(streamCost + int(s.headSize) + int(s.inside) + s.up.queue.size() + s.down.queue.size())
	if !s.grpc {
		n += int64(s.handlerBytes() + (accept.HeaderCopies-1)*s.headSize)
	}
	if n == int64(s.charged) {
		return true
	}
	if !s.ledger().add(n - int64(s.charged)) {
		return false
	}
	s.charged = int32(n)
	return true
}

// handlerBytes returns the cost of the http.Handler for the stream, in bytes.
func (s *Stream) handlerBytes() int32 {
	if s.lasting != 0 {
		return s.lasting
	}
	return accept.RequestBytes
}

// release releases the stream's whole charge.
func (s *Stream) release() {
	if s.charged != 0 {
		l := s.ledger()
		s.uncharge()
		s.sh.cool(l)
	}
	s.payer = nil
}

func (s *Stream) uncharge() {
	if s.charged != 0 {
		s.ledger().add(-int64(s.charged))
		s.charged = 0
	}
}

// charge returns the bytes of the connection's input and output that its accept.ConnBytes does not cover.
func (c *conn) charge(input int) int64 { return max(int64(input+c.unsent-accept.FreeBytes), 0) }

func (c *conn) input() int {
	return cap(c.partial) + cap(c.block.buf) + cap(c.backlog) + c.dec.Kept()
}

// recount updates the connection's own charge: for unprocessed input, and for output that its peer has not read. If
// there is no room, it drops both: a peer that reads, and sends complete frames, needs no more than accept.FreeBytes.
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
			c.fail(&connError{errEnhanceYourCalm, "too much memory is held for this client"})
		}
	})
}

// chargeOutput charges the output that the link has accepted but not written, and that which it did not accept. Output
// of the current turn is not charged: the link has not been asked yet.
func (c *conn) chargeOutput() {
	c.unsent = c.link.holds()
	if c.blocked {
		c.unsent += cap(c.out.buf)
	}
	c.recount()
}

// forgetInput drops the input of a connection that ends.
func (c *conn) forgetInput() {
	c.dec.Forget()
	for _, b := range []*[]byte{&c.partial, &c.block.buf, &c.backlog} {
		c.sh.buffers.put(*b)
		*b = nil
	}
}

// putsOff reports whether n bytes of input may wait for another turn, for which there must be room.
func (c *conn) putsOff(n int) bool {
	held := c.charge(c.input() + 2*n) // a buffer is at most twice its content, or of minimum size
	if held > c.charged && !c.own.add(held-c.charged) {
		return false
	}
	c.charged = max(held, c.charged)
	return true
}

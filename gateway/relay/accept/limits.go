package relay

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// crowds counts the client connections of each network that Config.Network bounds, and those of networks of which no
// client has authenticated lately.
type crowds struct {
	mu       sync.Mutex
	of       map[netip.Prefix]int
	unknown  int // connections that count as those of unknown networks
	known    known
	crowded  atomic.Int64 // connections that were closed, by reason
	reserved atomic.Int64
	roomless atomic.Int64

	// With Config.Evict.
	all     int
	guests  guests
	evicted atomic.Int64
}

var (
	errCrowded  = errors.New("its network has as many connections as it may have")
	errFull     = errors.New("there are as many connections as there may be, all with a credential")
	errReserved = errors.New("what is left of the connections is for networks of which a client has authenticated")
)

// Crowding is how many client connections were closed because there were too many, since the start, and how many wait.
type Crowding struct {
	Network   int64 // closed: too many of the same network
	Reserved  int64 // closed: too many of networks of which no client has authenticated
	Handshake int64 // closed: too many handshakes of the same network waited
	Memory    int64 // closed: their owner had no room for another
	Evicted   int64 // closed without a credential, to make room for another
	Waiting   int   // TLS handshakes that wait for a processor
}

// Crowding tells of the connections that were closed because there were too many.
func (r *Relay) Crowding() Crowding {
	waiting, dropped := r.gate.stats()
	return Crowding{Network: r.crowds.crowded.Load(), Reserved: r.crowds.reserved.Load(), Handshake: dropped,
		Memory: r.crowds.roomless.Load(), Evicted: r.crowds.evicted.Load(), Waiting: waiting}
}

// join counts a connection whose address is known, or says why there is no room for it.
func (r *Relay) join(p *Peer, nc net.Conn) error {
	if r.cfg.Network == nil {
		return nil
	}
	network, bounded := r.cfg.Network(p.Addr)
	if !bounded {
		return nil
	}
	c := &r.crowds
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.cfg.Evict {
		if out := c.makeRoom(network, r.cfg.MaxConns, r.cfg.MaxNetworkConns); out != nil {
			r.refused.tell(r, out.nc, "a connection without a credential was ended: a new one needed the room")
		}
	}
	unknown := !c.known.has(network, time.Now())
	switch {
	case c.of[network] >= r.cfg.MaxNetworkConns:
		c.crowded.Add(1)
		return errCrowded
	case r.cfg.Evict && c.all >= r.cfg.MaxConns:
		c.crowded.Add(1)
		return errFull
	case unknown && c.unknown >= r.cfg.MaxConns-r.cfg.ReservedConns:
		c.reserved.Add(1)
		return errReserved
	}
	if c.of == nil {
		c.of = map[netip.Prefix]int{}
	}
	c.of[network]++
	c.all++
	p.network = network
	c.count(p, unknown)
	if r.cfg.Evict {
		c.guests.add(p, nc)
	}
	return nil
}

// takeIn charges what a client's connection takes to whose it is.
func (r *Relay) takeIn(p *Peer) error {
	cost := int64(connCost)
	if p.Port.tls.Load() != nil {
		cost += copiedCost + handshakeCost
	}
	if r.cfg.ConnAccount != nil && !p.hold.begin(r.cfg.ConnAccount(p), cost) {
		r.crowds.roomless.Add(1)
		return errNoRoom
	}
	return nil
}

// count has a connection count as one of an unknown network, or not.
func (c *crowds) count(p *Peer, unknown bool) {
	if p.unknown != unknown {
		p.unknown = unknown
		if unknown {
			c.unknown++
		} else {
			c.unknown--
		}
	}
}

// part takes a connection off the count, and gives its slot back.
func (r *Relay) part(p *Peer) {
	p.hold.end()
	<-r.slots
	if !p.network.IsValid() {
		return
	}
	c := &r.crowds
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.authenticated.Load() { // its client may come back
		c.known.add(p.network, time.Now())
	}
	if g := p.guest; g == nil || !g.evicted {
		c.leave(p)
	}
}

// leave takes a connection off the counts.
func (c *crowds) leave(p *Peer) {
	c.count(p, false)
	c.guests.drop(p)
	c.all--
	if c.of[p.network]--; c.of[p.network] == 0 {
		delete(c.of, p.network)
	}
}

// Authenticated says that a client has shown a credential that is good: for a while its network may have of
// Config.ReservedConns. It may be called for each call, with a shard locked: but for the first of a connection it costs
// next to nothing.
func (r *Relay) Authenticated(p *Peer) {
	if !p.network.IsValid() || p.authenticated.Load() || p.authenticated.Swap(true) {
		return
	}
	c := &r.crowds
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.add(p.network, time.Now())
	if g := p.guest; g == nil || !g.evicted {
		c.count(p, false)
		c.guests.drop(p)
	}
}

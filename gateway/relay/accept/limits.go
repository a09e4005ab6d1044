package accept

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// connLimits counts the client connections of each network with a limit, and those of networks without a recently
// authenticated client.
type connLimits struct {
	mu         sync.Mutex
	byNetwork  map[netip.Prefix]int
	unknown    int // connections of unknown networks
	recent     recentNetworks
	overLimit  atomic.Int64 // closed connections, by reason
	unreserved atomic.Int64
	noMemory   atomic.Int64

	// With Limits.Evict.
	total     int
	evictable evictables
	evicted   atomic.Int64
}

var (
	errNetworkLimit = errors.New("the connection limit of its network is reached")
	errConnLimit    = errors.New("the connection limit is reached, and all connections have a credential")
	errReserved     = errors.New("the connection limit is nearly reached; only networks with an authenticated " +
		"client may connect")
)

// Rejections counts the client connections that were closed since the start because of a limit, and waiting
// handshakes.
type Rejections struct {
	Network   int64 // closed: too many connections of the network
	Reserved  int64 // closed: too many connections of networks without an authenticated client
	Handshake int64 // closed: too many waiting handshakes of the network
	Memory    int64 // closed: no memory left for the owner
	Evicted   int64 // closed without a credential, to make room for another
	Waiting   int   // TLS handshakes that wait for a processor
}

// Rejections returns the number of connections closed because of a limit.
func (s *Server) Rejections() Rejections {
	waiting, dropped := s.handshakes.stats()
	l := &s.limits
	return Rejections{Network: l.overLimit.Load(), Reserved: l.unreserved.Load(), Handshake: dropped,
		Memory: l.noMemory.Load(), Evicted: l.evicted.Load(), Waiting: waiting}
}

// admit counts a connection whose address is known, or returns the limit that it exceeds.
func (s *Server) admit(p *Peer, nc net.Conn) error {
	max := &s.cfg.Limits
	if max.Network == nil {
		return nil
	}
	network, bounded := max.Network(p.Addr)
	if !bounded {
		return nil
	}
	l := &s.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	if max.Evict {
		if out := l.makeRoom(network, max.MaxConns, max.MaxNetworkConns); out != nil {
			s.refused.warn(s.cfg.Log, out.nc, "connection without a credential closed to make room for a new one")
		}
	}
	unknown := !l.recent.has(network, time.Now())
	switch {
	case l.byNetwork[network] >= max.MaxNetworkConns:
		l.overLimit.Add(1)
		return errNetworkLimit
	case max.Evict && l.total >= max.MaxConns:
		l.overLimit.Add(1)
		return errConnLimit
	case unknown && l.unknown >= max.MaxConns-max.ReservedConns:
		l.unreserved.Add(1)
		return errReserved
	}
	if l.byNetwork == nil {
		l.byNetwork = map[netip.Prefix]int{}
	}
	l.byNetwork[network]++
	l.total++
	p.network = network
	l.setUnknown(p, unknown)
	if max.Evict {
		l.evictable.add(p, nc)
	}
	return nil
}

// charge reserves the memory of a client's connection.
func (s *Server) charge(p *Peer) error {
	cost := int64(ConnBytes)
	if p.Port.tls.Load() != nil {
		cost += TLSBytes + handshakeBytes
	}
	if s.cfg.Account != nil && !p.memory.Begin(s.cfg.Account(p), cost) {
		s.limits.noMemory.Add(1)
		return ErrNoMemory
	}
	return nil
}

// setUnknown sets whether a connection counts as one of an unknown network.
func (l *connLimits) setUnknown(p *Peer, unknown bool) {
	if p.unknown != unknown {
		p.unknown = unknown
		if unknown {
			l.unknown++
		} else {
			l.unknown--
		}
	}
}

// release removes an ended connection from the counts, and releases its slot.
func (s *Server) release(p *Peer) {
	p.memory.End()
	<-s.slots
	if !p.network.IsValid() {
		return
	}
	l := &s.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.authenticated.Load() { // its client may connect again
		l.recent.add(p.network, time.Now())
	}
	if e := p.evictable; e == nil || !e.evicted {
		l.remove(p)
	}
}

// remove removes a connection from the counts.
func (l *connLimits) remove(p *Peer) {
	l.setUnknown(p, false)
	l.evictable.remove(p)
	l.total--
	if l.byNetwork[p.network]--; l.byNetwork[p.network] == 0 {
		delete(l.byNetwork, p.network)
	}
}

// Authenticated records that a client has presented a valid credential: its network may then use Limits.ReservedConns
// for a while. It may be called for each call, with a shard locked: except for the first call of a connection it costs
// very little.
func (s *Server) Authenticated(p *Peer) {
	if !p.network.IsValid() || p.authenticated.Load() || p.authenticated.Swap(true) {
		return
	}
	l := &s.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent.add(p.network, time.Now())
	if e := p.evictable; e == nil || !e.evicted {
		l.setUnknown(p, false)
		l.evictable.remove(p)
	}
}

package accept

import (
	"container/list"
	"net"
	"net/netip"
)

// evictables holds the unauthenticated connections by network, oldest first. It is guarded by connLimits.mu.
type evictables struct {
	byNetwork map[netip.Prefix]*list.List // lists of *evictable, never empty
}

// evictable is a connection that may be ended to make room for another.
type evictable struct {
	peer    *Peer
	nc      net.Conn
	at      *list.Element // nil means it can no longer be evicted
	evicted bool          // it is being closed, and no longer counts
}

func (e *evictables) add(p *Peer, nc net.Conn) {
	if e.byNetwork == nil {
		e.byNetwork = map[netip.Prefix]*list.List{}
	}
	all := e.byNetwork[p.network]
	if all == nil {
		all = list.New()
		e.byNetwork[p.network] = all
	}
	p.evictable = &evictable{peer: p, nc: nc}
	p.evictable.at = all.PushBack(p.evictable)
}

func (e *evictables) remove(p *Peer) {
	if p.evictable == nil || p.evictable.at == nil {
		return
	}
	all := e.byNetwork[p.network]
	all.Remove(p.evictable.at)
	p.evictable.at = nil
	if all.Len() == 0 {
		delete(e.byNetwork, p.network)
	}
}

// oldest returns the oldest connection of a network, or, if network is invalid, of the network with the most of them;
// nil if there is none.
func (e *evictables) oldest(network netip.Prefix) *evictable {
	all := e.byNetwork[network]
	if !network.IsValid() {
		for _, l := range e.byNetwork {
			if all == nil || l.Len() > all.Len() {
				all = l
			}
		}
	}
	if all == nil {
		return nil
	}
	return all.Front().Value.(*evictable)
}

// makeRoom ends an unauthenticated connection if there is no room for a connection of a network, and returns it. It
// returns nil if there is room, or no such connection.
func (l *connLimits) makeRoom(network netip.Prefix, most, mostOfNetwork int) *evictable {
	var out *evictable
	switch {
	case l.byNetwork[network] >= mostOfNetwork:
		out = l.evictable.oldest(network)
	case l.total >= most:
		out = l.evictable.oldest(netip.Prefix{})
	}
	if out != nil {
		l.remove(out.peer)
		out.evicted = true
		l.evicted.Add(1)
		shut(out.nc)
	}
	return out
}

// shut ends a connection that another goroutine uses and closes: that goroutine reads the end of the stream.
func shut(nc net.Conn) {
	both, ok := nc.(interface {
		CloseRead() error
		CloseWrite() error
	})
	if !ok {
		_ = nc.Close()
		return
	}
	_ = both.CloseRead()
	_ = both.CloseWrite()
}

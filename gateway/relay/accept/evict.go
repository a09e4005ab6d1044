package relay

import (
	"container/list"
	"net"
	"net/netip"
)

// guests are the connections without a credential, by network, the oldest first. They are under crowds.mu.
type guests struct {
	of map[netip.Prefix]*list.List // of *guest, none of them empty
}

// guest is a connection that may be ended to make room for another.
type guest struct {
	peer    *Peer
	nc      net.Conn
	at      *list.Element // nil: it is no guest any more
	evicted bool          // it is ending, and counts no longer
}

func (g *guests) add(p *Peer, nc net.Conn) {
	if g.of == nil {
		g.of = map[netip.Prefix]*list.List{}
	}
	all := g.of[p.network]
	if all == nil {
		all = list.New()
		g.of[p.network] = all
	}
	p.guest = &guest{peer: p, nc: nc}
	p.guest.at = all.PushBack(p.guest)
}

func (g *guests) drop(p *Peer) {
	if p.guest == nil || p.guest.at == nil {
		return
	}
	all := g.of[p.network]
	all.Remove(p.guest.at)
	p.guest.at = nil
	if all.Len() == 0 {
		delete(g.of, p.network)
	}
}

// oldest returns the oldest guest of a network, or of the network with the most guests if that is not valid; nil: there
// is none.
func (g *guests) oldest(of netip.Prefix) *guest {
	all := g.of[of]
	if !of.IsValid() {
		for _, l := range g.of {
			if all == nil || l.Len() > all.Len() {
				all = l
			}
		}
	}
	if all == nil {
		return nil
	}
	return all.Front().Value.(*guest)
}

// makeRoom ends a guest if there is no room for a connection of a network, and returns it; nil: there is room, or there
// is no guest.
func (c *crowds) makeRoom(network netip.Prefix, most, mostOfNetwork int) *guest {
	var out *guest
	switch {
	case c.of[network] >= mostOfNetwork:
		out = c.guests.oldest(network)
	case c.all >= most:
		out = c.guests.oldest(netip.Prefix{})
	}
	if out != nil {
		c.leave(out.peer)
		out.evicted = true
		c.evicted.Add(1)
		shut(out.nc)
	}
	return out
}

// shut ends a connection that another goroutine uses, and closes: that reads the end of the stream.
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

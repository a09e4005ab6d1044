package relay

import (
	"errors"
	"net/netip"
	"sync"
)

// crowds counts the client connections of each network that Config.Network bounds.
type crowds struct {
	mu sync.Mutex
	of map[netip.Prefix]int
}

var errCrowded = errors.New("its network has as many connections as it may have")

// join counts a connection whose address is known. It returns false when its network has enough.
func (r *Relay) join(p *Peer) bool {
	if r.cfg.Network == nil {
		return true
	}
	network, bounded := r.cfg.Network(p.Addr)
	if !bounded {
		return true
	}
	r.crowds.mu.Lock()
	defer r.crowds.mu.Unlock()
	if r.crowds.of[network] >= r.cfg.MaxNetworkConns {
		return false
	}
	if r.crowds.of == nil {
		r.crowds.of = map[netip.Prefix]int{}
	}
	r.crowds.of[network]++
	p.network = network
	return true
}

// part takes a connection off the count, and gives its slot back.
func (r *Relay) part(p *Peer) {
	<-r.slots
	if !p.network.IsValid() {
		return
	}
	r.crowds.mu.Lock()
	defer r.crowds.mu.Unlock()
	if r.crowds.of[p.network]--; r.crowds.of[p.network] == 0 {
		delete(r.crowds.of, p.network)
	}
}

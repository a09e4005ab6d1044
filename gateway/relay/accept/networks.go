package accept

import (
	"container/list"
	"net/netip"
	"time"
)

const (
	maxNetworks  = 4096
	recentWindow = time.Hour
)

// recentNetworks holds the networks of clients that authenticated within recentWindow, at most maxNetworks. A further
// one replaces the least recent. It is guarded by connLimits.mu.
type recentNetworks struct {
	latest    list.List // of recentNetwork, most recent first
	byNetwork map[netip.Prefix]*list.Element
}

type recentNetwork struct {
	network netip.Prefix
	at      time.Time
}

func (r *recentNetworks) has(network netip.Prefix, now time.Time) bool {
	e := r.byNetwork[network]
	return e != nil && now.Sub(e.Value.(recentNetwork).at) < recentWindow
}

func (r *recentNetworks) add(network netip.Prefix, now time.Time) {
	if r.byNetwork == nil {
		r.byNetwork = map[netip.Prefix]*list.Element{}
	}
	if e := r.byNetwork[network]; e != nil {
		e.Value = recentNetwork{network, now}
		r.latest.MoveToFront(e)
		return
	}
	r.byNetwork[network] = r.latest.PushFront(recentNetwork{network, now})
	if r.latest.Len() > maxNetworks {
		oldest := r.latest.Remove(r.latest.Back()).(recentNetwork)
		delete(r.byNetwork, oldest.network)
	}
}

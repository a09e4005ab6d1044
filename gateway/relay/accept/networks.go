package relay

import (
	"container/list"
	"net/netip"
	"time"
)

const (
	maxKnown = 4096
	knownFor = time.Hour
)

// known are the networks of which a client has authenticated lately: no more than maxKnown, and for knownFor. Where
// there is no room the one goes for which that was longest ago. It is under crowds.mu.
type known struct {
	latest list.List // of acquaintance, the latest in front
	of     map[netip.Prefix]*list.Element
}

type acquaintance struct {
	network netip.Prefix
	at      time.Time
}

func (k *known) has(network netip.Prefix, now time.Time) bool {
	e := k.of[network]
	return e != nil && now.Sub(e.Value.(acquaintance).at) < knownFor
}

func (k *known) add(network netip.Prefix, now time.Time) {
	if k.of == nil {
		k.of = map[netip.Prefix]*list.Element{}
	}
	if e := k.of[network]; e != nil {
		e.Value = acquaintance{network, now}
		k.latest.MoveToFront(e)
		return
	}
	k.of[network] = k.latest.PushFront(acquaintance{network, now})
	if k.latest.Len() > maxKnown {
		oldest := k.latest.Remove(k.latest.Back()).(acquaintance)
		delete(k.of, oldest.network)
	}
}

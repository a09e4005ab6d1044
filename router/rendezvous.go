package router

import (
	"math"
	"slices"
)

// Home is the backend that a session begins at: the usable one with the highest score
// for it (rendezvous hashing, each backend with chances by its weight), so that all
// gateways that see the same backends agree, and only the sessions of a backend that
// goes have to move. A session with backends of its own gets one of these. Zones count
// for nothing here, as gateways in different ones must agree.
//
// but, which may be nil, is taken only if there is no other. Home is nil if nobody is
// there.
func (f *Fleet) Home(tenant, id string, but *Backend) *Backend {
	key := mix(f.hash^mix(hashOf(tenant))) ^ hashOf(id)
	if own := f.reserved[session{tenant, id}]; len(own) > 0 {
		return homeOf(own, key, but)
	}
	p := f.pick.Load()
	if p.until != never {
		if now := f.clock.now(); now >= p.until {
			p = f.refresh(now)
		}
	}
	var best *Backend
	var most float64
	for _, m := range p.all {
		if m.Backend == but {
			continue
		}
		// The logarithm of a number evenly spread between 0 and 1 is below 0.
		spread := (float64(mix(key^m.hash)>>11) + 0.5) / (1 << 53)
		if score := float64(m.weight) / -math.Log(spread); score > most {
			best, most = m.Backend, score
		}
	}
	if best == nil && len(p.all) > 0 {
		return p.all[0].Backend
	}
	return best
}

// homeOf is the home among a session's own backends.
func homeOf(own []*Backend, key uint64, but *Backend) (best *Backend) {
	var most uint64
	for _, b := range own {
		if score := mix(key ^ b.hash); b != but && b.Alive() && (best == nil || score > most) {
			best, most = b, score
		}
	}
	if best == nil && slices.Contains(own, but) && but.Alive() {
		return but
	}
	return best
}

// hashOf is FNV-1a, the same in every process.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix spreads a hash over all its bits (the finalizer of SplitMix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

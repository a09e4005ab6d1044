package router

import (
	"math"
	"slices"
)

// Home returns the backend at which a session begins: the usable one with the highest weighted
// rendezvous-hashing score. All gateways that see the same backends agree, and only the sessions of a
// removed backend move. A session with reserved backends gets one of these. Zones are ignored, as
// gateways in different zones must agree.
//
// but, which may be nil, is taken only if there is no other. Home returns nil without a usable
// backend.
func (f *Fleet) Home(tenant, id string, but *Backend) *Backend {
	key := mix(f.hash^mix(hashOf(tenant))) ^ hashOf(id)
	if own := f.reserved[session{tenant, id}]; len(own) > 0 {
		return reservedHome(own, key, but)
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
		// The logarithm of a uniform number between 0 and 1 is negative.
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

// reservedHome returns the home among a session's reserved backends.
func reservedHome(own []*Backend, key uint64, but *Backend) (best *Backend) {
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

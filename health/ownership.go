package health

import (
	"slices"
	"time"
)

// peer is a live replica; one of them is this replica.
type peer struct {
	id       string
	hash     uint64
	lastSeen time.Time // time of its last heartbeat, by the local clock
	digest   Digest    // of its last heartbeat
	stale    bool      // its probes are overdue, so that its observations do not count
	expected Digest    // the digest that the local knowledge expects; Late is not used
	listed   bool      // listed in the last reply
	gone     bool      // no longer alive
}

// score returns the rendezvous-hashing score of a replica for a backend; the largest score owns
// the backend. All replicas compute the same scores. When a replica joins or leaves, only the
// backends that it gains or had change their owner.
func score(backend uint64, p *peer) uint64 {
	if p == nil {
		return 0
	}
	return mix(backend ^ p.hash)
}

// consider adds a peer to the candidates for ep's roles, and reports whether a role changed.
func (ep *endpoint) consider(p *peer) (changed bool) {
	switch s := score(ep.hash, p); {
	case ep.primary == nil || s > score(ep.hash, ep.primary):
		ep.primary, ep.secondary = p, ep.primary
	case ep.secondary == nil || s > score(ep.hash, ep.secondary):
		ep.secondary = p
	default:
		return false
	}
	return true
}

// dropGone chooses ep's roles anew if one belongs to a peer that is gone.
func (ep *endpoint) dropGone(alive []*peer) (changed bool) {
	if (ep.primary == nil || !ep.primary.gone) && (ep.secondary == nil || !ep.secondary.gone) {
		return false
	}
	ep.primary, ep.secondary = nil, nil
	for _, p := range alive {
		ep.consider(p)
	}
	return true
}

// addPeers adds replicas to the probing.
func (r *Replica) addPeers(now time.Time, newcomers ...*peer) {
	if len(newcomers) == 0 {
		return
	}
	for _, p := range newcomers {
		r.peers[p.id] = p
	}
	r.live = append(r.live, newcomers...)
	r.rebalance(now, func(ep *endpoint) (changed bool) {
		for _, p := range newcomers {
			changed = ep.consider(p) || changed
		}
		return changed
	})
}

// removePeers hands the backends of replicas to the others.
func (r *Replica) removePeers(now time.Time, gone ...*peer) {
	if len(gone) == 0 {
		return
	}
	for _, p := range gone {
		p.gone = true
		delete(r.peers, p.id)
	}
	r.live = slices.DeleteFunc(r.live, func(p *peer) bool { return p.gone })
	r.rebalance(now, func(ep *endpoint) bool { return ep.dropGone(r.live) })
}

// rebalance calls change to alter the roles of every endpoint.
func (r *Replica) rebalance(now time.Time, change func(*endpoint) bool) {
	for _, f := range r.fleets {
		for _, ep := range f.endpoints {
			first, contribution := ep.primary, ep.contribution()
			if !change(ep) {
				continue
			}
			first.uncount(contribution)
			ep.primary.count(contribution)
			r.assign(now, ep)
			r.updateState(now, ep, false)
		}
	}
}

// contribution returns the part of ep in the digest of its primary.
func (ep *endpoint) contribution() uint64 {
	state := Unknown
	if v := ep.observations[Primary]; v != nil {
		state = v.State
	}
	return mix(ep.hash + uint64(state))
}

// count adds an endpoint to the expected digest; uncount removes it.
func (p *peer) count(contribution uint64) {
	if p != nil {
		p.expected.Probes++
		p.expected.Sum += contribution
	}
}

func (p *peer) uncount(contribution uint64) {
	if p != nil {
		p.expected.Probes--
		p.expected.Sum -= contribution
	}
}

// inSync reports whether a peer's digest of its backends matches the local knowledge.
func (p *peer) inSync() bool {
	return p.expected.Probes == p.digest.Probes && p.expected.Sum == p.digest.Sum
}

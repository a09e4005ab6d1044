package health

import (
	"slices"
	"time"
)

// peer is a live replica, this one included.
type peer struct {
	id      string
	hash    uint64
	seen    time.Time // when its last beat was, by the local clock
	digest  Digest    // that it sent
	stale   bool      // what it should have probed is not known to be current
	view    Digest    // what its digest should be, by what is known here; Late is not used
	current bool      // named by the last answer
	gone    bool      // it is not alive any more
}

// order returns the place of a replica in a backend's order; the larger goes first.
// All replicas compute the same (rendezvous hashing), and when one comes or goes,
// only the backends change hands that it gets or had.
func order(backend uint64, p *peer) uint64 {
	if p == nil {
		return 0
	}
	return mix(backend ^ p.hash)
}

// meets puts a replica that has come into t's order, and says if that changes who
// probes.
func (t *target) meets(p *peer) (changed bool) {
	switch place := order(t.hash, p); {
	case t.first == nil || place > order(t.hash, t.first):
		t.first, t.second = p, t.first
	case t.second == nil || place > order(t.hash, t.second):
		t.second = p
	default:
		return false
	}
	return true
}

// losesGone takes replicas out of t's order that are not in alive any more.
func (t *target) losesGone(alive []*peer) (changed bool) {
	if (t.first == nil || !t.first.gone) && (t.second == nil || !t.second.gone) {
		return false
	}
	t.first, t.second = nil, nil
	for _, p := range alive {
		t.meets(p)
	}
	return true
}

// join lets replicas take part in probing.
func (r *Replica) join(now time.Time, newcomers ...*peer) {
	if len(newcomers) == 0 {
		return
	}
	for _, p := range newcomers {
		r.peers[p.id] = p
	}
	r.alive = append(r.alive, newcomers...)
	r.reorder(now, func(t *target) (changed bool) {
		for _, p := range newcomers {
			changed = t.meets(p) || changed
		}
		return changed
	})
}

// leave makes others do what some replicas did.
func (r *Replica) leave(now time.Time, gone ...*peer) {
	if len(gone) == 0 {
		return
	}
	for _, p := range gone {
		p.gone = true
		delete(r.peers, p.id)
	}
	r.alive = slices.DeleteFunc(r.alive, func(p *peer) bool { return p.gone })
	r.reorder(now, func(t *target) bool { return t.losesGone(r.alive) })
}

// reorder lets change alter the order of every target.
func (r *Replica) reorder(now time.Time, change func(*target) bool) {
	for _, f := range r.fleets {
		for _, t := range f.targets {
			first, contribution := t.first, t.contribution()
			if !change(t) {
				continue
			}
			first.uncount(contribution)
			t.first.count(contribution)
			r.assign(now, t)
			r.settle(now, t, false)
		}
	}
}

// contribution is what t adds to the digest of who probes it.
func (t *target) contribution() uint64 {
	state := Unknown
	if v := t.votes[First]; v != nil {
		state = v.State
	}
	return mix(t.hash + uint64(state))
}

func (p *peer) count(contribution uint64) {
	if p != nil {
		p.view.Probes++
		p.view.Sum += contribution
	}
}

func (p *peer) uncount(contribution uint64) {
	if p != nil {
		p.view.Probes--
		p.view.Sum -= contribution
	}
}

// agrees says whether what a replica says of its backends is what is known of them
// here.
func (p *peer) agrees() bool {
	return p.view.Probes == p.digest.Probes && p.view.Sum == p.digest.Sum
}

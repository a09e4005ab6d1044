package router

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

const (
	// overprovision is the factor by which a zone is overprovisioned: while 1/1.4 of its weight is
	// usable, it keeps all calls of its gateways.
	overprovision = 1.4
	// minSpillover is the number of calls in flight at a backend from which on a call ignores zones and weights: they
	// are preferences, and no reason to queue.
	minSpillover = 8
	// spilloverFactor is the factor by which the backend must cost more than another.
	spilloverFactor = 4
	// latencyTolerance is the factor below which two latencies count as equal.
	latencyTolerance = 2
)

// picker holds one fleet's usable backends at one moment. It is immutable.
type picker struct {
	until    time.Duration // when it is outdated, for example at the end of a slow start
	ramping  bool          // a slow start is in progress
	plain    []*load       // all usable backends, when only their loads matter
	near     set           // those in the gateway's zone, or all if there are none or no zone
	far      set           // the others
	farShare uint32        // share of calls for far, of 2^32
	all      []member      // usable
	none     *call.Refusal // the refusal when all is empty
	health   *health.Snapshot
	*hostSet
}

// set is a weighted set of backends; those of the same weight form a group.
type set struct {
	groups []group
	total  uint64 // weight
}

type group struct {
	members []*load
	upTo    uint64 // weight of this group and those before it
	weight  int    // of each member
}

// newPicker makes a picker of the usable backends.
func newPicker(f *Fleet, r *hostSet, ramping bool) *picker {
	p := &picker{until: r.until, ramping: ramping, all: r.usable, health: f.health, hostSet: r}
	if len(p.all) == 0 {
		p.none = f.noBackend()
		return p
	}
	var near, far []member
	for _, m := range p.all {
		if m.inZone {
			near = append(near, m)
		} else {
			far = append(far, m)
		}
	}
	if len(near) == 0 {
		near, far = far, nil
	}
	p.near, p.far = newSet(near), newSet(far)
	if len(far) > 0 {
		var zone uint64
		for _, m := range f.members {
			if m.inZone && m.configured() {
				zone += uint64(m.weight)
			}
		}
		stay := min(overprovision*float64(p.near.total)/float64(zone), 1)
		p.farShare = uint32((1 - stay) * (1 << 32))
	}
	if len(far) == 0 && len(p.near.groups) == 1 {
		p.plain = p.near.groups[0].members
	}
	return p
}

// newSet groups members by weight.
func newSet(members []member) set {
	if len(members) == 0 {
		return set{}
	}
	members = slices.Clone(members)
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(b.weight, a.weight) })
	var s set
	for i, m := range members {
		if i == 0 || m.weight != members[i-1].weight {
			s.groups = append(s.groups, group{weight: m.weight})
		}
		g := &s.groups[len(s.groups)-1]
		g.members = append(g.members, m.load)
		s.total += uint64(m.weight)
		g.upTo = s.total
	}
	return s
}

// canEject reports whether one more backend may be ejected.
func (p *picker) canEject(why Class) bool {
	return p.ejected < p.limit(why) && (!p.panicked || why.unconnected())
}

// uniform reports whether calls may use any of a fleet's own loads until the next rebuild.
func (p *picker) uniform(own []load) bool {
	return len(p.plain) == len(own) && p.until == never && !p.ramping && !p.absent
}

// choose picks a backend, of at least two.
func (p *picker) choose(now time.Duration, tried *Backend, slowStart time.Duration) *load {
	if p.plain != nil {
		return p.powerOfTwo(p.plain, now, tried, slowStart)
	}
	from := &p.near
	if p.farShare > 0 && rand.Uint32() < p.farShare {
		from = &p.far
	}
	var chosen *load
	g := from.draw()
	if len(g.members) > 1 {
		chosen = p.powerOfTwo(g.members, now, tried, slowStart)
	} else if chosen = g.members[0]; p.ramping && !chosen.acceptsInRamp(now, slowStart) {
		chosen = p.other(chosen).load
	}
	if chosen.inFlight.Load() >= minSpillover {
		chosen = p.spillOver(chosen, g.weight, now)
	}
	if tried != nil && chosen == tried.load {
		chosen = p.other(chosen).load
	}
	return chosen
}

// powerOfTwo picks the better one of two random backends.
func (p *picker) powerOfTwo(members []*load, now time.Duration, tried *Backend, slowStart time.Duration) *load {
	i, j := pair(uint64(len(members)))
	a, b := members[i], members[j]
	one := better(a, b, tried)
	if !p.ramping || one.acceptsInRamp(now, slowStart) {
		return one
	}
	other := a
	if one == a {
		other = b
	}
	if (tried == nil || other != tried.load) && other.acceptsInRamp(now, slowStart) {
		return other
	}
	return one
}

// pair returns two different random numbers below n, which is at least 2.
func pair(n uint64) (i, j uint64) {
	r := rand.Uint64()
	i, j = uint64(uint32(r))*n>>32, (r>>32)*(n-1)>>32
	if j >= i {
		j++
	}
	return i, j
}

// better returns the backend that should get a call. It avoids tried, which may be nil.
func better(a, b *load, tried *Backend) *load {
	if tried != nil {
		switch tried.load {
		case a:
			return b
		case b:
			return a
		}
	}
	if b.lighter(a) {
		return b
	}
	return a
}

// draw picks a group by weight.
func (s *set) draw() *group {
	low, high := 0, len(s.groups)-1
	for at := rand.Uint64N(s.total); low < high; {
		if middle := (low + high) / 2; at < s.groups[middle].upTo {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return &s.groups[low]
}

// other returns a random usable backend other than but; there are at least two.
func (p *picker) other(but *load) *member {
	i := rand.IntN(len(p.all))
	if p.all[i].load == but {
		i = (i + 1) % len(p.all)
	}
	return &p.all[i]
}

// spillOver replaces a backend that has far more load than another one.
func (p *picker) spillOver(chosen *load, weight int, now time.Duration) *load {
	other := p.other(chosen)
	if p.ramping && int64(now) < other.availability.rampUntil.Load() {
		return chosen
	}
	mine, its := chosen.latency.both(&other.load.latency)
	if chosen.cost(mine)/float64(weight) > spilloverFactor*other.load.cost(its)/float64(other.weight) {
		return other.load
	}
	return chosen
}

// cost estimates the duration of a new call, if each call in flight takes the latency.
func (l *load) cost(nanos float64) float64 { return (nanos + grain) * float64(l.inFlight.Load()+1) }

// lighter reports whether l promises a faster answer than a. It compares latency times calls in flight,
// or these alone while a latency is unknown or both are about equal. Without that tolerance the
// noise of single calls would starve a backend.
func (l *load) lighter(a *load) bool {
	mine, its := l.latency.both(&a.latency)
	if mine+grain < latencyTolerance*(its+grain) && its+grain < latencyTolerance*(mine+grain) {
		return l.inFlight.Load() < a.inFlight.Load()
	}
	return l.cost(mine) < a.cost(its)
}

// minRampShare is the share of its calls that a backend gets at the start of its slow start.
const minRampShare = 0.1

// acceptsInRamp reports whether a backend in slow start takes this call.
func (l *load) acceptsInRamp(now, slowStart time.Duration) bool {
	left := l.backend.availability.rampUntil.Load() - int64(now)
	if left <= 0 || slowStart <= 0 {
		return true
	}
	share := max(1-float64(left)/float64(slowStart), minRampShare)
	return rand.Float64() < share
}

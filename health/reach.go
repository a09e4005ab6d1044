package health

import "time"

// A replica that reaches no backend, though others do, should get no calls. What it finds out about backends alone does
// not show that: the backends may all be gone. So it counts as cut off while no backend answers its probes and another
// live replica finds some of them Up. Replicas that all reach nothing stay as they are.
const (
	reachQuiet = 15 * time.Second // without an answer of any backend until the first check
	reachIdle  = time.Minute      // the same, at a replica that probes no backend for all
	reachEvery = 3 * time.Second  // between two checks
	reachTurns = 3                // checks in a row with the same result that change what is said
)

// reach records whether a replica's own network works.
type reach struct {
	answered time.Time // when a backend last answered a probe
	next     time.Time // time of the next check
	pending  bool      // a check is in flight
	contrary int       // checks in a row that contradict cutOff
	since    time.Time // when the first of them ended
	cutOff   bool
}

// CutOff reports whether this replica reaches no backend, though others do.
func (r *Replica) CutOff() bool { return r.reach.cutOff }

// noteAnswer takes the result of a probe.
func (r *Replica) noteAnswer(now time.Time, result Result) {
	if result.OK || result.Answered {
		r.reach.answered = now
	}
}

// checkReach returns a probe of a backend that another replica finds Up, if a check is due.
func (r *Replica) checkReach(now time.Time) *Probe {
	c := &r.reach
	if c.answered.IsZero() {
		c.answered = now
	}
	least := reachQuiet
	if len(r.queue)+r.inFlight == 0 {
		least = reachIdle
	}
	if c.pending || now.Before(c.next) || !c.cutOff && now.Sub(c.answered) < least {
		return nil
	}
	c.next = now.Add(reachEvery)
	seen := r.upElsewhere(never)
	if len(seen) == 0 {
		c.cutOff, c.contrary = false, 0
		return nil
	}
	c.pending = true
	ep := seen[int(r.options.Jitter(time.Duration(len(seen))))]
	return &Probe{heapIndex: -1, spec: ep.fleet.spec, addr: ep.addr(), reaches: true}
}

// never is longer than any replica takes to find a backend Down.
const never = time.Duration(1<<63 - 1)

// upElsewhere returns backends that another live replica finds Up, and would not, had they been silent there for so
// long.
func (r *Replica) upElsewhere(silent time.Duration) (seen []*endpoint) {
	if !r.joined || r.isolated {
		return nil
	}
	for _, f := range r.fleets {
		if c := &f.spec.Config; silent < time.Duration(c.Fall+1)*(c.Interval+c.Timeout) {
			continue
		}
		for _, ep := range f.endpoints {
			first, second := ep.observations[Primary], ep.observations[Secondary]
			if r.isUpBy(first) || first != nil && r.isUpBy(second) && second.Episode == first.Episode {
				seen = append(seen, ep)
			}
		}
	}
	return seen
}

// isUpBy reports whether another live replica observed Up.
func (r *Replica) isUpBy(v *Observation) bool {
	if v == nil || v.State != Up || v.By == r.self.id {
		return false
	}
	by := r.peers[v.By]
	return by != nil && !by.stale
}

// OnReach takes the result of a check that Step returned.
func (r *Replica) OnReach(now time.Time, result Result) {
	c := &r.reach
	c.pending = false
	r.noteAnswer(now, result)
	if answered := c.answered.Equal(now); answered != c.cutOff {
		c.contrary = 0
		return
	}
	if c.contrary++; c.contrary == 1 {
		c.since = now
	}
	if c.contrary >= reachTurns && (c.cutOff || len(r.upElsewhere(now.Sub(c.since))) > 0) {
		c.cutOff, c.contrary = !c.cutOff, 0
	}
}

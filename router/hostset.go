package router

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// never is a time that is never reached.
const never = time.Duration(math.MaxInt64)

// member is a backend in one table.
type member struct {
	*Backend
	weight int  // 0: no calls
	inZone bool // in the gateway's zone
	limit  int  // concurrent calls of all replicas; 0: no limit
}

// hostSet is the state of a fleet's backends at one moment.
type hostSet struct {
	usable     []member
	down       int // according to probes
	ejected    int // by outlier detection
	weightless int // weight 0
	draining   int // weight above 0, but drained
	panicked   bool
	absent     bool // no backend is worth a call, but one may come
	candidates int  // that may be usable or ejected
	until      time.Duration
}

// limit returns how many backends may be ejected for a kind of failure. All but one may be ejected for closed ports:
// nothing of a call goes there, and the rest of the fleet has none to lose.
func (r *hostSet) limit(why Class) int {
	if why == Refused {
		return r.candidates - 1
	}
	return r.candidates / 2
}

// rebuild makes the picker for now. The caller holds state.mu.
//
// Normally every backend is usable that is neither down nor ejected. At most half of them are ejected, or all but one
// if their ports are closed. When fewer than half of the fleet are not down, the probes are probably wrong: calls
// then go to all backends except those with a closed port, or another protocol, according to the last probe or a later
// call (panic routing).
func (f *Fleet) rebuild(now time.Duration) *picker {
	r := &hostSet{until: never}
	candidates := f.candidates(r)
	r.candidates, r.absent = len(candidates), f.isAbsent(r.panicked)
	ejected := make([]member, 0, len(candidates))
	for _, m := range candidates {
		if f.isEjected(m, now, r.panicked) {
			ejected = append(ejected, m)
		}
	}
	ejected = r.keep(ejected, now)
	r.ejected = len(ejected)
	for _, m := range ejected {
		m.availability.excluded = true
		r.until = min(r.until, time.Duration(m.availability.ejectedUntil.Load()))
	}
	for _, m := range candidates {
		if !f.isEjected(m, now, r.panicked) {
			r.usable = append(r.usable, m)
		}
	}
	p := newPicker(f, r, f.startSlowly(r, now))
	if p.uniform(f.loads) {
		f.uniform.Store(int32(len(f.loads)))
	} else {
		f.uniform.Store(0)
	}
	f.pick.Store(p)
	return p
}

// keep returns the ejected backends that stay so. Where probes took other backends out since, the ejections that would
// end first end now; those for closed ports are the last.
func (r *hostSet) keep(ejected []member, now time.Duration) []member {
	if len(ejected) <= r.limit(Failed) {
		return ejected
	}
	slices.SortStableFunc(ejected, func(a, b member) int {
		return cmp.Or(cmp.Compare(r.limit(b.availability.ejectedFor), r.limit(a.availability.ejectedFor)),
			cmp.Compare(b.availability.ejectedUntil.Load(), a.availability.ejectedUntil.Load()))
	})
	for i, m := range ejected {
		if i < r.limit(m.availability.ejectedFor) {
			continue
		}
		for _, m := range ejected[i:] {
			m.availability.ejectedUntil.Store(int64(now))
		}
		return ejected[:i]
	}
	return ejected
}

// rebuildIfDue makes a new picker if the current one is outdated. The caller holds state.mu.
func (f *Fleet) rebuildIfDue(now time.Duration) *picker {
	if p := f.pick.Load(); now < p.until {
		return p
	}
	return f.rebuild(now)
}

// candidates returns the backends whose probes permit calls. A backend that joins healthy others waits for its first
// probe, which detects its dialect.
func (f *Fleet) candidates(r *hostSet) []member {
	weighted, healthy := 0, 0
	seen := false // a probe found a backend healthy
	for i, m := range f.members {
		if m.configured() && m.Session == "" {
			weighted++
			if f.states[i].State.Usable() {
				healthy++
				seen = seen || f.states[i].State != health.Unknown
			}
		}
	}
	r.panicked = 2*healthy < weighted
	candidates := make([]member, 0, weighted)
	for i, m := range f.members {
		state := &f.states[i]
		m.onProbe(state, r.panicked && m.Session == "")
		switch {
		case m.Session != "": // only its session uses it
		case m.weight == 0:
			r.weightless++
			m.availability.excluded = true
		case m.Draining():
			r.draining++
			m.availability.excluded = true
		case seen && m.availability.excluded && state.State == health.Unknown && m.Dialect() == call.Auto:
		case state.State.Usable(), r.panicked && !state.Refused && !state.WrongService():
			candidates = append(candidates, m)
		default:
			r.down++
			m.availability.excluded = true
		}
	}
	return candidates
}

// isEjected reports whether a backend is ejected.
func (f *Fleet) isEjected(m member, now time.Duration, panicked bool) bool {
	return int64(now) < m.availability.ejectedUntil.Load() && (!panicked || m.availability.ejectedFor.unconnected())
}

// startSlowly starts the slow start of returning backends, and reports whether any slow start is in
// progress.
func (f *Fleet) startSlowly(r *hostSet, now time.Duration) bool {
	ramping := false
	for _, m := range r.usable {
		if m.availability.excluded {
			m.availability.excluded = false
			// In panic routing there is no slow start.
			if !r.panicked && f.slowStart > 0 {
				m.availability.rampUntil.Store(int64(now + f.slowStart))
			}
		}
		if end := time.Duration(m.availability.rampUntil.Load()); end > now {
			ramping = true
			r.until = min(r.until, end)
		}
	}
	return ramping && len(r.usable) > 1
}

// Stats describe a fleet's backends and counters at one moment.
type Stats struct {
	Usable   int  // that get calls
	Down     int  // according to probes
	Ejected  int  // by outlier detection
	Off      int  // of weight 0
	Draining int  // taken out by an operator
	Panic    bool // fewer than half are healthy, so that calls go to all that are not provably gone

	Ejections        int64
	EjectionOverflow int64 // failures that ejected no backend because half of the fleet must stay
	Retries          int64 // made
	RetriesDenied    int64 // by the budget

	Limited       bool
	Permits       int   // of a limited fleet, at this replica
	PermitsUsed   int   // of these, in use by calls
	Waiting       int   // calls that wait for a permit
	Waits         int64 // calls that had to wait
	LimitRejected int64 // calls that could not wait, or waited too long
}

// Stats returns the current Stats.
func (f *Fleet) Stats() Stats {
	s := f.state
	s.mu.Lock()
	p := f.rebuildIfDue(f.clock.now())
	s.mu.Unlock()
	stats := Stats{
		Usable: len(p.all), Down: p.down, Ejected: p.ejected, Off: p.weightless, Draining: p.draining,
		Panic:     p.panicked,
		Ejections: s.ejections.Load(), EjectionOverflow: s.overflow.Load(),
		Retries: s.budget.allowed.Load(), RetriesDenied: s.budget.denied.Load(),
	}
	if f.limiter != nil {
		f.limiter.stats(&stats)
	}
	return stats
}

// Health returns the known health of the fleet's backends.
func (f *Fleet) Health() *health.Snapshot { return f.pick.Load().health }

// setHealth takes a snapshot. A backend without an entry is Unknown, and so usable. The caller holds
// state.mu.
func (f *Fleet) setHealth(s *health.Snapshot) {
	known := make(map[string]*health.Backend, len(s.Backends))
	for i := range s.Backends {
		known[s.Backends[i].Addr] = &s.Backends[i]
	}
	states := make([]health.Backend, len(f.Backends))
	for i, b := range f.Backends {
		states[i] = health.Backend{Addr: b.Addr, Dialect: b.Dialect()}
		if k := known[b.Addr]; k != nil {
			states[i] = *k
			b.detected.Store(uint32(k.Dialect))
			if k.State != health.Unknown {
				b.warmed()
			}
		}
	}
	f.states = states
	f.health = health.NewSnapshot(f.Capability, states)
	f.rebuild(f.clock.now())
}

// noBackend returns the refusal of calls when no backend can take them.
func (f *Fleet) noBackend() *call.Refusal {
	r := &call.Refusal{
		Kind:       call.Unavailable,
		Reason:     "NO_HEALTHY_BACKEND",
		Message:    "no healthy backend for capability " + f.Capability,
		Metadata:   map[string]string{"capability": f.Capability},
		RetryAfter: retryAfter,
	}
	free := func(m member) bool { return m.Session == "" }
	switch off := !slices.ContainsFunc(f.members, func(m member) bool { return free(m) && m.configured() }); {
	case len(f.members) == 0:
		r.Reason, r.Message = "NO_BACKEND", "capability "+f.Capability+" has no backends"
		return r
	case !slices.ContainsFunc(f.members, free):
		r.Reason, r.Message = "NO_BACKEND", "all backends of capability "+f.Capability+" belong to other sessions"
		return r
	case off:
		r.Reason, r.Message = "NO_BACKEND", "all backends of capability "+f.Capability+
			" are drained or have the weight 0"
		return r
	}
	_, summary := f.health.Ready()
	r.Message += ": " + summary
	if told := publicReason(f.states); told != "" {
		r.Message += "; " + told
	}
	return r
}

// PublicReason returns why no backend of the fleet serves calls, as callers may read it; "": one may, or there is no
// such reason.
func (f *Fleet) PublicReason() string { return publicReason(f.Health().Backends) }

// publicReason returns what callers may read of the reasons of backends, all of which are down.
func publicReason(states []health.Backend) string {
	if slices.ContainsFunc(states, func(b health.Backend) bool { return b.State.Usable() }) {
		return ""
	}
	for i := range states {
		if words := states[i].PublicReason(); words != "" {
			return words
		}
	}
	return ""
}

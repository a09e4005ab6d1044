package router

import (
	"cmp"
	"time"

	"github.com/capgate/capgate/health"
)

// BackendStatus is the state of a backend of a fleet at one moment, for operators.
type BackendStatus struct {
	*Backend
	State    string    // up, down, unknown, ejected, draining, off or ramping
	Reason   string    // the reason of State
	Since    time.Time // start of State; zero: unknown
	Usable   bool      // calls may use it
	Health   health.Backend
	Config   BackendConfig
	Weight   int
	Limit    int // concurrent calls of all replicas; 0: no limit
	InFlight int64
	Latency  time.Duration // the expected latency of the next call; 0: unknown
}

// Cause returns the kind of Reason of an unusable backend. The set of texts is small and fixed.
func (s *BackendStatus) Cause() string {
	switch s.State {
	case "down":
		return s.Health.Cause()
	case "ejected":
		return "failed calls"
	}
	return s.Reason
}

// Statuses returns the status of all backends, in the order of the configuration.
func (f *Fleet) Statuses() []BackendStatus {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	now := f.clock.now()
	usable := f.rebuildIfDue(now).usableSet()
	all := make([]BackendStatus, len(f.members))
	for i := range f.members {
		all[i] = f.status(i, usable, now)
	}
	return all
}

// Unusable returns the status of the first backends, at most limit, that are down, ejected, off or draining. In
// panic, calls go to some of them all the same.
func (f *Fleet) Unusable(limit int) (some []BackendStatus) {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	now := f.clock.now()
	p := f.rebuildIfDue(now)
	if !p.panicked && p.down+p.ejected+p.weightless+p.draining == 0 {
		return nil
	}
	usable := p.usableSet()
	for i := 0; i < len(f.members) && len(some) < limit; i++ {
		switch s := f.status(i, usable, now); s.State {
		case "down", "ejected", "off", "draining":
			some = append(some, s)
		}
	}
	return some
}

func (p *picker) usableSet() map[*Backend]bool {
	usable := make(map[*Backend]bool, len(p.all))
	for _, m := range p.all {
		usable[m.Backend] = true
	}
	return usable
}

// status returns the status of the i-th member. The caller holds state.mu.
func (f *Fleet) status(i int, usable map[*Backend]bool, now time.Duration) BackendStatus {
	m := f.members[i]
	s := BackendStatus{
		Backend: m.Backend, Usable: usable[m.Backend], Health: f.states[i], Config: f.cfg.Backends[i],
		Weight: m.weight, Limit: m.limit,
		InFlight: m.InFlight(), Latency: time.Duration(m.load.latency.at(now)),
	}
	f.explain(&s, m, now)
	return s
}

// explain fills in State, Why and Since. The caller holds state.mu.
func (f *Fleet) explain(s *BackendStatus, m member, now time.Duration) {
	s.State, s.Reason, s.Since = s.Health.State.String(), s.Health.Reason, s.Health.Since
	drain := m.drained.Load()
	ramp := time.Duration(m.availability.rampUntil.Load())
	switch {
	case drain != nil:
		s.State, s.Reason, s.Since = "draining", "drained by "+cmp.Or(drain.By, "an operator"), drain.Since
	case m.weight == 0:
		s.State, s.Reason, s.Since = "off", "its weight is 0", time.Time{}
	case !s.Health.State.Usable():
	case int64(now) < m.availability.ejectedUntil.Load() && !s.Usable:
		left := time.Duration(m.availability.ejectedUntil.Load()) - now
		s.State, s.Since = "ejected", f.clock.epoch.Add(m.availability.ejectedAt)
		s.Reason = "calls: " + m.availability.ejectedFor.String() + "; for another " + left.Round(time.Second).String()
	case s.Usable && now < ramp && f.slowStart > 0:
		s.State, s.Since = "ramping", f.clock.epoch.Add(ramp-f.slowStart)
		s.Reason = "in slow start: its share of the calls grows gradually"
	}
}

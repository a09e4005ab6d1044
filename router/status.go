package router

import (
	"time"

	"github.com/capgate/capgate/health"
)

// Standing is what a backend of a fleet is to its calls at one moment, for operators.
type Standing struct {
	*Backend
	State    string    // up, down, unknown, ejected, draining, off or ramping
	Why      string    // for State
	Since    time.Time // when State began; zero: not known
	Usable   bool      // calls may go there
	Health   health.Backend
	Config   BackendConfig
	Weight   int
	Limit    int // calls at once, of all replicas; 0: any number
	InFlight int64
	Latency  time.Duration // what is expected of the next call; 0: not known
}

// Standings are those of all backends, in the order of the configuration.
func (f *Fleet) Standings() []Standing {
	f.standing.mu.Lock()
	defer f.standing.mu.Unlock()
	now := f.clock.now()
	p := f.musterIfDue(now)
	usable := make(map[*Backend]bool, len(p.all))
	for _, m := range p.all {
		usable[m.Backend] = true
	}
	all := make([]Standing, len(f.members))
	for i, m := range f.members {
		s := &all[i]
		*s = Standing{
			Backend: m.Backend, Usable: usable[m.Backend], Health: f.states[i], Config: f.cfg.Backends[i], Weight: m.weight, Limit: m.limit,
			InFlight: m.InFlight(), Latency: time.Duration(m.load.latency.at(now)),
		}
		f.explain(s, m, now)
	}
	return all
}

// explain says what keeps calls from a backend, or that nothing does. The caller holds
// standing.mu.
func (f *Fleet) explain(s *Standing, m member, now time.Duration) {
	s.State, s.Why, s.Since = s.Health.State.String(), s.Health.Reason, s.Health.Since
	ramp := time.Duration(m.turnout.rampUntil.Load())
	switch {
	case m.Draining():
		s.State, s.Why, s.Since = "draining", "drained by an operator", time.Unix(0, m.drainedSince.Load())
	case m.weight == 0:
		s.State, s.Why, s.Since = "off", "its weight is 0", time.Time{}
	case !s.Health.State.Usable():
	case int64(now) < m.turnout.ejectedUntil.Load() && !s.Usable:
		left := time.Duration(m.turnout.ejectedUntil.Load()) - now
		s.State, s.Since = "ejected", f.clock.epoch.Add(m.turnout.ejectedAt)
		s.Why = "calls: " + m.turnout.ejectedFor.String() + "; for another " + left.Round(time.Second).String()
	case s.Usable && now < ramp && f.slowStart > 0:
		s.State, s.Since = "ramping", f.clock.epoch.Add(ramp-f.slowStart)
		s.Why = "gets its share of calls little by little"
	}
}

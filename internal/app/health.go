package app

import (
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/router"
)

// usedFor is the time for which a backend counts as used after a call to it.
const usedFor = time.Minute

// healthFeature probes backends.
func healthFeature() feature {
	first := newFirstProbes()
	return feature{
		build: func(p *App) error {
			p.fleets.prober = health.New(p.parts.first.Probes, health.Options{Logger: p.log,
				Shared: p.shared(p.started.Config.Replicas), Changed: func(s *health.Snapshot) {
					p.fleets.routing.SetHealth(s)
					first.probed(s)
					p.tools.discovery.Healthy(s.Capability, s.Up() > 0)
				}, Silent: p.check})
			p.parts.Ready.CutOff = func() bool { return p.fleets.prober.Stats().CutOff }
			return p.metrics.Add(p.fleets.prober)
		},
		apply: func(p *App, c *change) { p.fleets.prober.Set(c.Probes) },
		run: func(p *App, w *work) {
			first.begin(p.fleets.planner.Probes())
			w.watch(p.fleets.prober.Run)
			first.wait(w.start) // before, the dialects of backends are unknown
		},
	}
}

// expedite requests early probes of a capability's backends, for which calls wait.
func (p *App) expedite(capability string) {
	p.fleets.prober.Expedite(capability)
	p.fleets.registry.Expedite(capability)
}

// check finds out whether the connections to a backend that does not answer probes are alive, or ends them.
func (p *App) check(capability, addr string) {
	p.gateway.Check(capability, addr)
	p.fleets.upstreams.Check(capability, addr)
}

// shared returns the settings for sharing probes among replicas; nil with an embedded Redis.
func (p *App) shared(s health.Shared) *health.Shared {
	s.ID, s.Stale, s.Reconcile = p.replica, max(15*s.Heartbeat, 5*time.Second), 5*s.Heartbeat
	s.Used = used(p.fleets.routing)
	if !p.store.Stats().Embedded {
		board := p.store.Health()
		s.Membership, s.Store = board, board
		p.log.Info("sharing health checks with all replicas of this redis", "replica", s.ID)
	}
	return &s
}

// used reports whether a backend got calls recently. Only one goroutine at a time may call it.
func used(routing *router.Router) func(capability, addr string) bool {
	type backend struct{ capability, addr string }
	type use struct {
		calls int64
		at    time.Time
	}
	seen := map[backend]use{} // of backends that had calls
	return func(capability, addr string) bool {
		f := routing.Table().Fleet(capability)
		if f == nil {
			return false
		}
		for _, b := range f.Backends {
			if b.Addr != addr {
				continue
			}
			key, calls := backend{capability, addr}, b.Routed()
			last, now := seen[key], time.Now()
			if calls != last.calls {
				last = use{calls, now}
				seen[key] = last
			}
			return calls > 0 && now.Sub(last.at) < usedFor
		}
		return false
	}
}

package app

import (
	"crypto/rand"
	"os"
	"strings"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/router"
)

// usedFor is how long a backend counts as used after a call to it.
const usedFor = time.Minute

// shared returns the settings for sharing probes among replicas; nil with an embedded Redis.
func (p *App) shared(c config.Replicas) *health.Shared {
	s := &health.Shared{ID: p.replica, Heartbeat: c.Heartbeat, Stale: c.Stale, Reconcile: c.Reconcile,
		Used: used(p.routing)}
	if !p.store.Stats().Embedded {
		board := p.store.Health()
		s.Membership, s.Store = board, board
		p.log.Info("sharing health checks with all replicas of this redis", "replica", s.ID)
	}
	return s
}

// sharedLimits is how this replica shares the places of limited fleets with others.
func (p *App) sharedLimits() router.LimitsConfig {
	if p.store.Stats().Embedded {
		return router.LimitsConfig{}
	}
	return router.LimitsConfig{
		Store:    p.store.Permits(rand.Text()),
		Replicas: func() int { return p.prober.Stats().Replicas }, // there is a prober before Limits run
	}
}

// replicaID makes a name of its own for each process.
func replicaID(configured string) string {
	if configured != "auto" {
		return configured
	}
	host, err := os.Hostname()
	if err != nil || strings.ContainsAny(host, " \t\n") || host == "" || len(host) > 100 {
		host = "capgate"
	}
	return host + "-" + strings.ToLower(rand.Text()[:6])
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

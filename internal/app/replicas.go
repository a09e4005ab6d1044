package app

import (
	"crypto/rand"
	"os"
	"strings"

	"github.com/capgate/capgate/router"
)

// limitsFeature shares the permits of limited fleets among replicas.
func limitsFeature() feature {
	return feature{
		build: func(p *App) error {
			p.fleets.limits = router.NewLimits(p.sharedLimits())
			return nil
		},
		run: func(p *App, w *work) { w.watch(p.fleets.limits.Run) },
	}
}

// sharedLimits returns the Limits by which replicas share the permits of limited fleets.
func (p *App) sharedLimits() router.LimitsConfig {
	if p.store.Stats().Embedded {
		return router.LimitsConfig{}
	}
	return router.LimitsConfig{
		Store:    p.store.Permits(rand.Text()),
		Replicas: func() int { return p.fleets.prober.Stats().Replicas }, // there is a prober before Limits run
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

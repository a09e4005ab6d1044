package app

import (
	"context"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/fleetplan"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/sources"
	"github.com/capgate/capgate/router"
)

// fleets are the backends of capabilities, and what chooses among them.
type fleets struct {
	routing   *router.Router
	registry  *registry.Registry // of the sources
	sources   sources.Set
	prober    *health.Prober
	limits    *router.Limits
	upstreams upstream.Protocols
	logins    *logins.Logins // of operators at MCP servers
	questions *questions.Calls
	room      upstream.Room // of their sessions
	planner   *fleetplan.Planner
	reloader  *reloader
}

// await waits for backends that are new in a configuration, so that a fleet does not lose its former ones before the
// new ones are known. Those that take longer come later.
func (f *fleets) await() {
	ctx, cancel := context.WithTimeout(context.Background(), namesTime)
	defer cancel()
	_ = f.sources.Await(ctx)
}

// sourceOf returns the source of a backend: dns, kubernetes, registration or config.
func (f *fleets) sourceOf(capability, addr string) string {
	m, known := f.sources.Find(capability, addr)
	if !known {
		return "config"
	}
	return string(m.Source)
}

// manifest returns a manifest that backends announce, or nil.
func (f *fleets) manifest(sum registry.Sum) *manifest.Manifest {
	m, _ := f.sources.Manifest(sum).(*manifest.Manifest) // nil is one without a type
	return m
}

// fleetsFeature routes calls to the fleets of the configuration.
func fleetsFeature() feature {
	ejected := newEjections()
	return feature{
		build: func(p *App) error {
			p.fleets.planner = &fleetplan.Planner{Ejected: ejected.report, Limits: p.fleets.limits,
				Others: p.fleets.upstreams, Manifest: p.fleets.manifest, Log: p.log}
			first := p.fleets.planner.Plan(p.started, nil)
			table, err := router.NewTable(first.Routes, nil)
			if err != nil {
				return err
			}
			p.fleets.upstreams.Set(first.Served)
			p.fleets.routing, p.parts.first = router.New(table), first
			p.parts.Routing.Router, p.parts.Routing.TLS = p.fleets.routing, first.TLS
			p.parts.Routing.Expedite = p.expedite
			return nil
		},
		run: func(p *App, w *work) {
			w.loop("ejections", func(ctx context.Context) { ejected.run(ctx, p.log) })
		},
	}
}

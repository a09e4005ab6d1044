package app

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/admin/registration"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/sources"
)

// namesTime bounds how long a configuration waits for backends that are new in it.
const namesTime = 2 * time.Second

// sourcesFeature finds the backends that the configuration does not list one by one.
func sourcesFeature() feature {
	return feature{
		build: func(p *App) error {
			changed := func() { p.fleets.reloader.nudge() }
			p.fleets.registry = registry.New(p.store.Registrations(), registry.Settings{}, registry.Options{Log: p.log,
				Changed: changed, Manifest: registration.ReadManifest})
			p.fleets.sources = sources.Open(sourceSettings(p.started.Config), sources.Options{
				Registry: p.fleets.registry, Changed: changed, ReadManifest: readManifest, Log: p.log})
			p.parts.services = append(p.parts.services, registration.New(p.fleets.registry, p.audit))
			others := p.parts.Ready.Warnings
			p.parts.Ready.Warnings = func() []string { return append(others(), p.fleets.sources.Warnings()...) }
			return p.metrics.Add(p.fleets.sources.Metrics()...)
		},
		run: func(p *App, w *work) {
			for _, s := range p.fleets.sources {
				w.watch(s.Run)
			}
			if err := p.settle(w.start); err != nil {
				p.log.Error("backends of DNS names, Kubernetes and registrations are left out", "error", err)
			}
		},
		close: func(p *App) { p.fleets.sources.Close() },
	}
}

// readManifest parses the manifest of a backend.
func readManifest(text string) (registry.Document, *call.Refusal) {
	m, refusal := registration.ParseManifest(text)
	if refusal != nil {
		return nil, refusal
	}
	return m, nil
}

// sourceSettings returns a configuration's settings of the sources.
func sourceSettings(cfg *config.Config) *sources.Settings {
	s := &sources.Settings{Sections: &cfg.Sections, Tenants: cfg.Multi}
	for i := range cfg.Fleets {
		f := &cfg.Fleets[i]
		one := sources.Fleet{Fields: &f.Fields, Capability: f.Capability, Names: f.Names, Secure: f.TLS.Enabled,
			Weight: config.DefaultBackend("").Weight}
		if f.URLs {
			one.Web = f.ProtocolName
		}
		s.Fleets = append(s.Fleets, one)
	}
	return s
}

// settle waits for the first answers of the sources and of the leases, and goes on with them.
func (p *App) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, namesTime)
	defer cancel()
	_ = p.fleets.sources.Await(ctx) // those that take longer come later
	select {
	case <-p.fleets.registry.Settled():
	case <-ctx.Done():
	}
	return p.fleets.reloader.apply(p.fleets.reloader.current)
}

package app

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/admin/registration"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/registry"
)

// namesTime bounds how long a configuration waits for names that are new in it.
const namesTime = 2 * time.Second

// registryFeature finds the backends of DNS names and registrations.
func registryFeature() feature {
	return feature{
		build: func(p *App) error {
			p.fleets.registry = registry.New(p.store.Registrations(), registrySettings(p.started.Config),
				registry.Options{Log: p.log, Changed: func() { p.fleets.reloader.nudge() },
					Manifest: registration.ReadManifest})
			p.parts.services = append(p.parts.services,
				registration.New(p.fleets.registry, p.audit))
			return p.metrics.Add(p.fleets.registry)
		},
		run: func(p *App, w *work) {
			w.watch(p.fleets.registry.Run)
			if err := p.settle(w.start); err != nil {
				p.log.Error("backends of DNS names and registrations are left out", "error", err)
			}
		},
	}
}

// registrySettings returns a configuration's settings of DNS names and registrations.
func registrySettings(cfg *config.Config) registry.Settings {
	s := registry.Settings{Resolution: cfg.DNS, Rules: registry.Rules{Permissions: cfg.Registration,
		Fleets: make(map[string]bool, len(cfg.Fleets)), Tenants: cfg.Multi}}
	for i := range cfg.Fleets {
		s.Rules.Fleets[cfg.Fleets[i].Capability] = true
		s.Targets = append(s.Targets, cfg.Fleets[i].Names...)
	}
	return s
}

// settle waits for the first answers of DNS and of the leases, and goes on with them.
func (p *App) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, namesTime)
	defer cancel()
	select {
	case <-p.fleets.registry.Settled():
	case <-ctx.Done():
	}
	return p.fleets.reloader.apply(p.fleets.reloader.current)
}

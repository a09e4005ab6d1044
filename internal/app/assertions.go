package app

import (
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/config"
)

// assertionsFeature signs assertions of callers, for the fleets that want them, and publishes the keys.
func assertionsFeature() feature {
	var signer *assertion.Signer
	return feature{
		build: func(p *App) error {
			signer = assertion.New(p.secret.Keys("assertions"), assertionsOf(p.started.Config), nil)
			p.parts.Routing.Assert, p.parts.Doors.Keys = signer, signer.Keys
			return nil
		},
		apply: func(_ *App, c *change) {
			if c.reloaded {
				signer.Set(assertionsOf(c.Config))
			}
		},
		run: func(_ *App, w *work) {
			signer.Load(w.start)
			w.loop("assertions", signer.Run)
		},
	}
}

// assertionsOf returns the settings of assertions in a configuration.
func assertionsOf(cfg *config.Config) assertion.Settings {
	s := assertion.Settings{Issuer: assertion.Issuer(cfg.PublicURL)}
	for i := range cfg.Fleets {
		s.Used = s.Used || cfg.Fleets[i].Assertion != nil
	}
	return s
}

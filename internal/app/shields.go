package app

import (
	"slices"

	"github.com/capgate/capgate/gateway/engine/shield"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/policy/extauthz"
)

// shieldsFeature requests the verdicts of Shields.
func shieldsFeature() feature {
	var shields *extauthz.Shields
	return feature{
		build: func(p *App) error {
			shields = extauthz.New(extauthz.Options{Dial: shield.Dial, Log: p.log})
			p.parts.Policy.Shield = shields
			if err := p.metrics.Add(shields); err != nil {
				return err
			}
			return shields.Replace(shieldConfigs(p.started), p.parts.first.Shields)
		},
		// before a fleet that they judge gets calls
		prepare: func(_ *App, c *change) error { return shields.Replace(shieldConfigs(c.Settings), c.Shields) },
		close: func(*App) {
			if shields != nil {
				shields.Close()
			}
		},
	}
}

// shieldCache is the number of cached verdicts of a shield.
const shieldCache = 10_000

// shieldConfigs returns the shields of a configuration.
func shieldConfigs(s *settings.Settings) []extauthz.Config {
	all := slices.Clone(s.Config.Shields)
	for i := range all {
		all[i].TLS, all[i].Cache = s.Backends[all[i].Files], shieldCache
	}
	return all
}

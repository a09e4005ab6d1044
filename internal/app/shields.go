package app

import (
	"github.com/capgate/capgate/gateway/engine/shield"
	"github.com/capgate/capgate/internal/config"
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

// shieldConfigs returns the shields of a configuration.
func shieldConfigs(s *settings.Settings) []extauthz.Config {
	all := make([]extauthz.Config, len(s.Config.Shields))
	for i := range s.Config.Shields {
		all[i] = shieldConfig(&s.Config.Shields[i], s)
	}
	return all
}

// shieldCache is the number of cached verdicts of a shield.
const shieldCache = 10_000

func shieldConfig(c *config.Shield, s *settings.Settings) extauthz.Config {
	return extauthz.Config{
		Name: c.Name, Address: c.Address, URL: c.URL, TLS: s.Backends[c.TLS],
		Qualified: c.Qualified, Timeout: c.Timeout, OnFailure: c.OnFailure, Cache: shieldCache,
	}
}

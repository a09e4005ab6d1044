package app

import (
	"github.com/capgate/capgate/gateway/engine/shield"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/policy/extauthz"
)

// newShields creates the clients of Shields. of maps capabilities to their Shields.
func (p *App) newShields(s *settings.Settings, of map[string]string, metrics *telemetry.Metrics) error {
	p.shields = extauthz.New(extauthz.Options{Dial: shield.Dial, Log: p.log})
	if err := metrics.Add(p.shields); err != nil {
		return err
	}
	return p.shields.Replace(shieldConfigs(s), of)
}

// shieldConfigs are the shields of a configuration.
func shieldConfigs(s *settings.Settings) []extauthz.Config {
	all := make([]extauthz.Config, len(s.Config.Shields))
	for i := range s.Config.Shields {
		all[i] = shieldConfig(&s.Config.Shields[i], s)
	}
	return all
}

func shieldConfig(c *config.Shield, s *settings.Settings) extauthz.Config {
	return extauthz.Config{
		Name: c.Name, Address: c.Address, URL: c.URL, TLS: s.Backends[c.TLS],
		Qualified: c.Qualified, Timeout: c.Timeout, OnFailure: c.OnFailure, Cache: c.Cache,
	}
}

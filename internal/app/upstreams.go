package app

import (
	"context"

	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/gateway/upstream/sessions"
)

// upstreamsFeature serves backends that are no capabilities.
func upstreamsFeature() feature {
	return feature{
		build: func(p *App) error {
			p.fleets.questions = questions.New()
			var shared *sessions.Shared
			if !p.store.Stats().Embedded {
				shared = &sessions.Shared{Store: p.store.UpstreamSessions(),
					Keys: p.secret.Keys("sessions at servers").Recent}
			}
			p.fleets.upstreams = protocols.Open(upstream.Options{Version: p.options.Version, Log: p.log,
				Sessions:  shared,
				Questions: p.fleets.questions, Room: &p.fleets.room, Sign: p.parts.Routing.Assert.Sign,
				Changed: func(capability string) { p.tools.discovery.Changed(capability) }})
			p.parts.Routing.Local = p.fleets.upstreams.Serve
			p.parts.Policy.Arguments = func(ctx context.Context, capability string) authorize.CheckArguments {
				return authorize.CheckArguments(p.fleets.upstreams.Arguments(ctx, capability))
			}
			return nil
		},
		apply: func(p *App, c *change) { p.fleets.upstreams.Set(c.Served) },
		close: func(p *App) { p.fleets.upstreams.Close() },
	}
}

package app

import (
	"context"

	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/logins"
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
			p.fleets.logins = logins.New(logins.Config{Store: p.store.Logins(), Log: p.log,
				Keys: p.secret.Keys("logins at servers").Recent, Changed: p.loginChanged})
			p.fleets.upstreams = protocols.Open(upstream.Options{Version: p.options.Version, Log: p.log,
				Sessions: shared, Logins: p.fleets.logins,
				Questions: p.fleets.questions, Room: &p.fleets.room, Sign: p.parts.Routing.Assert.Sign,
				Changed: func(capability string) { p.tools.discovery.Changed(capability) }})
			p.parts.Routing.Local = p.fleets.upstreams.Serve
			p.parts.Policy.Arguments = func(ctx context.Context, capability string) authorize.CheckArguments {
				return authorize.CheckArguments(p.fleets.upstreams.Arguments(ctx, capability))
			}
			return nil
		},
		apply: func(p *App, c *change) { p.fleets.upstreams.Set(c.Served) },
		run:   func(p *App, w *work) { w.loop("logins", p.fleets.logins.Run) },
		close: func(p *App) { p.fleets.upstreams.Close() },
	}
}

// loginChanged probes the server of a fleet with its new login, and lists its tools.
func (p *App) loginChanged(fleet string) {
	p.fleets.prober.Expedite(fleet)
	p.tools.discovery.Changed(fleet)
}

package app

import (
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/engine"
	enginelisting "github.com/capgate/capgate/gateway/engine/listing"
	"github.com/capgate/capgate/gateway/engine/metrics"
	enginerest "github.com/capgate/capgate/gateway/engine/rest"
	"github.com/capgate/capgate/gateway/engine/turns"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// enginesFeature has what replicas share of OpenParallax engines, what counts for them, and their part of the catalog
// and of the JSON API.
func enginesFeature() feature {
	return feature{
		build: func(p *App) error {
			counts := metrics.New(p.engineIDs, p.metrics)
			p.parts.Routing.Engines = engine.Shared{
				Turns:    turns.New(p.store.EngineTurns(), turns.Options{}),
				Sessions: p.store.EngineSessions(), Approvals: p.approvals.service,
				Questions: p.store.EngineQuestions(), Meters: counts.Of,
			}
			p.parts.Doors.REST.Extensions = append(p.parts.Doors.REST.Extensions, enginerest.Routes)
			p.parts.builtins = append(p.parts.builtins, func(g grpc.ServiceRegistrar) {
				capgatepb.RegisterCatalogServer(g, enginelisting.New(p.tools.listing, p.engineIDs))
			})
			return p.metrics.Add(counts)
		},
		run: func(p *App, w *work) {
			w.loop("engine turns", p.parts.Routing.Engines.Turns.Run)
			w.served = append(w.served, p.parts.Routing.Engines.Turns.Close)
		},
	}
}

// engineIDs returns the ids of all fleets of engines, sorted.
func (p *App) engineIDs() []string { return engine.Fleets(p.fleets.routing.Table()) }

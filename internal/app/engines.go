package app

import (
	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/engine"
	enginelisting "github.com/capgate/capgate/gateway/engine/listing"
	"github.com/capgate/capgate/gateway/engine/metrics"
	enginerest "github.com/capgate/capgate/gateway/engine/rest"
	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/telemetry"
)

// newEngines makes what replicas share of OpenParallax engines, and what counts for them.
func (p *App) newEngines(m *telemetry.Metrics) error {
	counts := metrics.New(p.engineIDs, m)
	p.engines = engine.Shared{
		Turns:    turns.New(p.store.EngineTurns(), turns.Options{}),
		Sessions: p.store.EngineSessions(), Approvals: p.approvals,
		Questions: p.store.EngineQuestions(), Meters: counts.Of,
	}
	return m.Register(counts)
}

// withEngines adds engines to a catalog of capabilities.
func (p *App) withEngines(c *listing.Server) *enginelisting.Catalog {
	return enginelisting.New(c, p.engineIDs)
}

// engineRoutes are those of engines.
func engineRoutes() []rest.Wing { return []rest.Wing{enginerest.Routes} }

// engineIDs are those of all fleets of engines, sorted.
func (p *App) engineIDs() []string { return engine.Fleets(p.routing.Table()) }

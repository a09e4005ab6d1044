package app

import (
	"context"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	mcptools "github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/fleetplan"
	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/tenant"
)

// mcpFeature has the front door of MCP.
func mcpFeature() feature {
	var levels *mcpsession.Sessions
	return feature{
		build: func(p *App) error {
			levels = mcpsession.New(p.store.MCPSessions())
			p.parts.Doors.MCP = p.mcp(p.started.Config, p.parts.first)
			p.parts.Doors.MCP.Levels = levels
			return nil
		},
		run: func(p *App, w *work) {
			w.loop("mcp levels", levels.Run)
			w.loop("cancellations", func(ctx context.Context) {
				p.store.Cancellations().Watch(ctx, p.gateway.CancelMCP, func() {})
			})
		},
	}
}

// mcp returns what the front door of MCP needs.
func (p *App) mcp(cfg *config.Config, first *fleetplan.Plan) mcptools.Config {
	var scopes func([]string) []string
	if p.auth.tokens != nil {
		scopes = func(issuers []string) []string { return p.auth.tokens.Scopes(issuers, tenant.Invoke|tenant.Read) }
	}
	return mcptools.Config{Scopes: scopes, Usable: p.tools.listing, Absent: p.tools.listing.Absent,
		Settings: p.mcpOf(cfg, first), Version: p.options.Version, Keys: p.secret.Keys("mcp").Recent,
		Approvals: p.approvals.service, Changes: &p.tools.changed, Follow: p.persons.sessions.Follow,
		StillValid: p.auth.all.StillValid, Questions: p.fleets.questions,
		Cancel:   p.store.Cancellations().Publish,
		Describe: p.tools.catalog.Describe}
}

// mcpOf returns the settings of MCP.
func (p *App) mcpOf(cfg *config.Config, of *fleetplan.Plan) mcp.Settings {
	s := cfg.MCP
	s.Names, s.PublicURL, s.Own = mcp.NewNames(of.Names), cfg.PublicURL, ownOf(cfg)
	s.Toolsets = p.tools.sets.Sets()
	if cfg.Multi {
		for i := range cfg.Issuers {
			s.Issuers = append(s.Issuers, cfg.Issuers[i].URL)
		}
	}
	return s
}

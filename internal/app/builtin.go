package app

import (
	"context"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/toolschema"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// registerBuiltins registers the gateway's own services for callers.
func (p *App) registerBuiltins(g grpc.ServiceRegistrar) {
	capgatepb.RegisterCatalogServer(g, p.withEngines(p.listing))
	p.approvalsAPI.Register(g)
	p.tenantsAPI.Register(g)
	capgatepb.RegisterArtifactsServer(g, p.signing)
}

// mcp returns what the front door of MCP needs.
func (p *App) mcp(cfg *config.Config, first *plan) tools.Config {
	return tools.Config{Usable: p.listing, Absent: p.listing.Absent, Settings: mcpOf(cfg, first), Version: p.options.Version, Keys: p.signatures.Keys,
		Approvals: p.approvals, Changes: &p.toolsChanged, Follow: p.persons.sessions.Follow,
		StillValid: p.auth.all.StillValid,
		Cancel: func(ctx context.Context, request string) {
			_ = p.store.Cancellations().Publish(ctx, request) // else the call ends with its connection
		},
		Describe: p.tools.Describe}
}

// mcpOf returns the settings of MCP.
func mcpOf(cfg *config.Config, of *plan) mcp.Settings {
	s := mcp.Settings{Names: mcp.NewNames(of.names), ApprovalWait: cfg.MCP.ApprovalWait, PublicURL: cfg.PublicURL,
		Search: cfg.MCP.Search}
	if cfg.Multi {
		for i := range cfg.Issuers {
			s.Issuers = append(s.Issuers, cfg.Issuers[i].URL)
		}
	}
	return s
}

// describe returns the description of a tool, for approvers.
func (p *App) describe(capability, tool string) authorize.Description {
	t, _ := p.tools.Describe(capability, tool)
	return authorize.Description{Description: t.Description, Change: p.tools.Change(capability, tool), Schema: t.Hash}
}

// toolNames returns the known tools of a capability.
func (p *App) toolNames(capability string) []string {
	tools, _ := p.tools.Tools(capability)
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
	}
	return names
}

// secretsOf returns what the schema of a tool says of secrets; nil: the tool has another schema now, or none is known.
func (p *App) secretsOf(capability, tool string, schema toolschema.Hash) *toolschema.Secrets {
	t, known := p.tools.Describe(capability, tool)
	if !known || t.Hash != schema {
		return nil
	}
	return t.Schema.Secrets()
}

// current returns the schema hash of a tool.
func (p *App) current(capability, tool string) toolschema.Hash {
	t, _ := p.tools.Describe(capability, tool)
	return t.Hash
}

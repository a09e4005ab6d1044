package app

import (
	"context"

	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/policy/catalog"
)

// newCatalog makes what knows the tools of capabilities, and what asks for them.
func (p *App) newCatalog(first map[string]catalog.Declaration) {
	p.tools = catalog.New(catalog.Options{Store: p.store.Catalog(), Rules: p.store.Policies(), Log: p.log,
		Changed: func(capability string) { p.toolsChanged.Send(tools.ViewChange{Capability: capability}) }})
	p.tools.Replace(first)
	p.discovery = catalog.NewDiscoverer(p.tools, func(ctx context.Context, q catalog.DiscoveryCall) ([]byte, error) {
		return p.gateway.AskForTools(ctx, q)
	})
}

package app

import (
	"context"

	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/filter/authorize"
	mcptools "github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
)

// toolParts has the tools of capabilities.
type toolParts struct {
	catalog   *catalog.Catalog
	discovery *catalog.Discoverer
	listing   *listing.Server
	// changed is sent when the tools of callers may have changed: those of a capability, or a rule about them.
	changed  mcptools.ViewChanges
	toolsets *toolsetChecks
	sets     *toolset.Manager
}

// catalogFeature holds the tools of capabilities, and discovers the tools that backends list.
func catalogFeature() feature {
	return feature{
		build: buildCatalog,
		apply: func(p *App, c *change) { p.tools.toolsets.change(c.Config, c.Tools) },
		run: func(p *App, w *work) {
			p.tools.catalog.Read(w.start) // no call finds a tool that has drifted, and is not known to have
			w.watch(p.tools.catalog.Run)
			w.untilDrain("discovery", p.tools.discovery.Run)
			w.untilDrain("checks of toolsets", p.tools.toolsets.run)
			w.loop("tool versions", func(ctx context.Context) { p.tools.catalog.KeepVersions(ctx, p.store.Versions()) })
		},
	}
}

func buildCatalog(p *App) error {
	all := catalog.New(catalog.Options{Store: p.store.Catalog(), Rules: p.store.Policies(), Log: p.log,
		Changed: func(capability string) {
			p.tools.changed.Send(mcptools.ViewChange{Capability: capability, Listed: capability != ""})
			p.labelTools(capability)
			signal.Wake(p.tools.toolsets.wake)
		}})
	p.tools.catalog = all
	p.tools.toolsets = &toolsetChecks{catalog: all, log: p.log, wake: make(chan struct{}, 1)}
	p.tools.toolsets.change(p.started.Config, p.parts.first.Tools)
	p.tools.sets = toolset.NewManager(p.store.Stored(toolset.Kind), parseToolset, p.toolsetsChanged, p.log)
	p.tools.sets.SetFile(p.started.Config.Toolsets)
	p.tools.discovery = catalog.NewDiscoverer(all,
		func(ctx context.Context, q catalog.DiscoveryCall) (catalog.Answer, error) {
			return p.gateway.AskForTools(ctx, q)
		})
	p.parts.Policy.Describe, p.parts.Policy.Tools, p.parts.Routing.Discovery.Lists = p.describe, p.toolNames, all.Lists
	return p.metrics.Add(all)
}

// labelTools gives the tools of a capability series of their own; "": those of all.
func (p *App) labelTools(capability string) {
	ids := []string{capability}
	if capability == "" {
		ids = p.tools.catalog.Capabilities()
	}
	for _, id := range ids {
		p.metrics.SetTools(id, p.toolNames(id))
	}
}

// describe returns the description of a tool, for approvers.
func (p *App) describe(capability, tool string) authorize.Description {
	t, _ := p.tools.catalog.Describe(capability, tool)
	return authorize.Description{Description: t.Description, Change: p.tools.catalog.Change(capability, tool),
		Schema: t.Hash}
}

// toolNames returns the known tools of a capability.
func (p *App) toolNames(capability string) []string {
	tools, _ := p.tools.catalog.Tools(capability)
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
	}
	return names
}

// secretsOf returns what the schema of a tool says of secrets; nil: the tool has another schema now, or none is known.
func (p *App) secretsOf(capability, tool string, schema toolschema.Hash) *toolschema.Secrets {
	t, known := p.tools.catalog.Describe(capability, tool)
	if !known || t.Hash != schema {
		return nil
	}
	return t.Schema.Secrets()
}

// current returns the schema hash of a tool.
func (p *App) current(capability, tool string) toolschema.Hash {
	t, _ := p.tools.catalog.Describe(capability, tool)
	return t.Hash
}

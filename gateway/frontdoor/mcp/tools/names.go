package tools

import (
	"reflect"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/toolset"
)

// named holds the settings that the names of tools depend on.
type named struct {
	names    *mcp.Names
	sets     *toolset.Sets
	toolsets toolset.View // of sets
	begun    bool         // there was another value before
}

// Set changes the settings for new requests. Changed names of tools, and toolsets, count as a changed list.
func (d *Door) Set(s mcp.Settings) {
	if d.Handler == nil {
		return
	}
	d.Handler.Set(s)
	d.rename(func(named) named { return named{names: s.Names, sets: s.Toolsets} })
}

// ToolsetsChanged makes changed toolsets count as a changed list of their callers.
func (d *Door) ToolsetsChanged() {
	if d.Handler != nil {
		d.rename(func(now named) named { return now })
	}
}

// rename replaces what the names of tools depend on, and notifies the callers whose tools have other names.
func (d *Door) rename(next func(named) named) {
	d.naming.Lock()
	defer d.naming.Unlock()
	before := d.named
	d.named = next(before)
	d.named.toolsets, d.named.begun = d.named.sets.View(), true
	if !before.begun {
		return
	}
	tenants, everybody := d.named.toolsets.Changes(before.toolsets)
	if everybody || !reflect.DeepEqual(before.names, d.named.names) {
		tenants = []string{""}
	}
	for _, tenant := range tenants {
		d.tools.views.renamed(tenant)
	}
}

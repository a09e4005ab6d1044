package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/admin/tools"
	"github.com/capgate/capgate/gateway/admin/toolsets"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
)

// toolsetsFeature has the toolsets of the configuration, and those that operators set.
func toolsetsFeature() feature {
	return feature{
		build: func(p *App) error {
			p.parts.services = append(p.parts.services, toolsets.New(toolsets.Config{Toolsets: p.tools.sets,
				Catalog: p.tools.catalog, Versions: p.store.Versions(), Tenants: p.auth.roster, Audit: p.audit,
				More: func() bool {
					of := p.tools.toolsets.sets.Load()
					return of == nil || of.more
				}}), tools.New(p.tools.catalog, p.tools.discovery, p.store.Versions(), p.tools.sets.Sets(),
				p.auth.roster, p.audit))
			return nil
		},
		apply: func(p *App, c *change) { p.tools.sets.SetFile(c.Config.Toolsets) },
		run: func(p *App, w *work) {
			p.tools.sets.Read(w.start) // no client finds that its toolset does not exist
			w.watch(p.tools.sets.Run)
		},
	}
}

func parseToolset(text []byte) (*toolset.Toolset, error) { return config.ParseToolset("toolset", text) }

// toolsetsChanged notifies clients of changed toolsets.
func (p *App) toolsetsChanged() {
	if p.gateway != nil { // the first read is before any client
		p.gateway.ToolsetsChanged()
	}
}

// Bounds of the checks of toolsets.
const (
	maxEntryProblems = 100         // that one check finds
	entryCheckPause  = time.Second // between two checks
)

// toolsetChecks logs the entries of toolsets that do not match the known tools: the tools of MCP servers are known only
// after their discovery. Each problem is logged once, and again after it had been solved.
type toolsetChecks struct {
	catalog *catalog.Catalog
	log     *slog.Logger
	wake    chan struct{} // the tools or the toolsets may have changed
	sets    atomic.Pointer[setsInUse]
	logged  map[entryProblem]bool // by the last check
}

// setsInUse has the toolsets that are checked. Each change has another one.
type setsInUse struct {
	toolsets []toolset.Toolset
	more     bool // there may be fleets that the catalog does not have yet
}

// entryProblem is a problem of an entry of a toolset. It has no index, so that an entry that moves is the same.
type entryProblem struct{ toolset, tenants, groups, capability, tool, text string }

// change replaces the toolsets and the declarations of the catalog. No check sees the one without the other.
func (c *toolsetChecks) change(of *config.Config, tools map[string]catalog.Declaration) {
	c.sets.Store(nil)
	c.catalog.Replace(tools)
	c.sets.Store(&setsInUse{of.Toolsets, of.Announced()})
	signal.Wake(c.wake)
}

// run checks the toolsets after each change until ctx ends.
func (c *toolsetChecks) run(ctx context.Context) {
	for {
		c.check(ctx)
		if !backoff.Sleep(ctx, entryCheckPause) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
	}
}

// check logs the problems that the check before did not find.
func (c *toolsetChecks) check(ctx context.Context) {
	of := c.sets.Load()
	if of == nil {
		return
	}
	found := problemsOf(ctx, of, c.catalog)
	if ctx.Err() != nil || c.sets.Load() != of { // the change wakes the next check
		return
	}
	before := c.logged
	c.logged = map[entryProblem]bool{}
	for _, p := range found {
		if c.logged[p] = true; before[p] {
			continue
		}
		c.log.Warn("entry of a toolset does not match the known tools", "toolset", p.toolset, "tenants", p.tenants,
			"groups", p.groups, "capability", p.capability, "tool", p.tool, "problem", p.text)
	}
	if len(found) == maxEntryProblems && len(before) < maxEntryProblems {
		c.log.Warn("further entries of toolsets are not checked: there are too many problems", "problems", len(found))
	}
}

// problemsOf returns the first problems of toolsets.
func problemsOf(ctx context.Context, of *setsInUse, all toolset.Catalog) (found []entryProblem) {
	for i := range of.toolsets {
		s := &of.toolsets[i]
		for j := range s.Tools {
			e := &s.Tools[j]
			if len(found) == maxEntryProblems || ctx.Err() != nil {
				return found
			}
			if text := e.Problem(ctx, all, of.more); text != "" {
				found = append(found, entryProblem{s.Name, joined(s.Tenants), joined(s.Groups), e.Capability, e.Tool,
					text})
			}
		}
	}
	return found
}

// joined returns names in one text, sorted.
func joined(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

package catalog

import (
	"context"
	"fmt"
	"maps"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// unreconciled returns the capabilities to reconcile.
func (c *Catalog) unreconciled() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.entries {
		if e.unreconciled {
			ids = append(ids, id)
		}
	}
	return ids
}

// reconcile writes a manifest's tools to the store, and deletes the rules of removed tools. Until both
// succeed it is tried again in each round. For a discovered capability it restores lost hashes.
func (c *Catalog) reconcile(ctx context.Context, id string) {
	c.mu.Lock()
	e := c.entries[id]
	if e == nil || !e.unreconciled || !e.seen {
		c.mu.Unlock()
		return
	}
	declared, next, accepted := e.declared, e.tools, e.accepted
	var withRules, removed []string
	if declared.static() {
		next = toolsOf(declared.Manifest.Tools)
		withRules, removed, accepted = e.withRules(next), e.removedAccepted(next), e.mergeAccepted(next)
	}
	c.mu.Unlock()

	err := c.write(ctx, withRules, Change{Capability: id, Tools: accepted, Removed: removed})

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[id] != e || e.declared.Manifest != declared.Manifest ||
		e.declared.ToolsElsewhere != declared.ToolsElsewhere {
		return // another declaration has replaced this one
	}
	if err != nil {
		if text := bounded(err); text != e.pending && ctx.Err() == nil {
			e.pending = text
			c.opts.Log.Warn("could not publish the tools of a manifest", "capability", id, "error", text)
		}
		return
	}
	e.unreconciled, e.pending = false, ""
	e.tools, e.accepted = next, accepted
	if declared.static() {
		e.markRemoved(removed)
	}
	e.known = e.known || declared.static()
	c.publish(id)
	c.logRemoved(id, withRules)
}

// withRules returns the published or stored tools that are not in next and may still have rules. The caller
// holds mu.
func (e *entry) withRules(next []Tool) []string {
	names := e.removedTools(next)
	seen := maps.Clone(e.removed)
	if seen == nil {
		seen = map[string]bool{}
	}
	for _, name := range names {
		seen[name] = true
	}
	for _, name := range e.removedAccepted(next) {
		if !seen[name] {
			names = append(names, name)
		}
	}
	return names
}

// write deletes the rules of removed tools, then makes a change.
func (c *Catalog) write(ctx context.Context, withRules []string, change Change) error {
	if c.opts.Rules != nil {
		for _, tool := range withRules {
			if err := c.opts.Rules.DeleteTool(ctx, change.Capability, tool); err != nil {
				return fmt.Errorf("delete the rules of the removed tool %s: %w", tool, err)
			}
		}
	}
	if err := c.opts.Store.Write(ctx, change); err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	return nil
}

// logRemoved logs removed tools.
func (c *Catalog) logRemoved(id string, removed []string) {
	if len(removed) > 0 {
		c.opts.Log.Info("tools were removed, and their rules deleted", "capability", id, "tools", removed)
	}
}

// bounded returns an error's text, for people and of bounded length.
func bounded(err error) string { return untrusted.Clip(err.Error(), 500) }

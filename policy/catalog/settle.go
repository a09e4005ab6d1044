package catalog

import (
	"context"
	"fmt"
	"maps"
	"strings"
)

// unsettled returns the capabilities to reconcile.
func (c *Catalog) unsettled() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.entries {
		if e.unsettled {
			ids = append(ids, id)
		}
	}
	return ids
}

// settle writes a manifest's tools to the store, and deletes the rules of removed tools. Until both
// succeed it is tried again in each round. For a discovered capability it restores lost hashes.
func (c *Catalog) settle(ctx context.Context, id string) {
	c.mu.Lock()
	e := c.entries[id]
	if e == nil || !e.unsettled || !e.seen {
		c.mu.Unlock()
		return
	}
	said, next, kept := e.said, e.tools, e.accepted
	var gone, absent []string
	if said.static() {
		next = toolsOf(said.Manifest.Tools)
		gone, absent, kept = e.gone(next), e.without(next), e.accepts(next)
	}
	c.mu.Unlock()

	err := c.write(ctx, gone, Change{Capability: id, Tools: kept, Gone: absent})

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[id] != e || e.said.Manifest != said.Manifest || e.said.Elsewhere != said.Elsewhere {
		return // another declaration has replaced this one
	}
	if err != nil {
		if text := bounded(err); text != e.trouble && ctx.Err() == nil {
			e.trouble = text
			c.opts.Log.Warn("could not publish the tools of a manifest", "capability", id, "error", text)
		}
		return
	}
	e.unsettled, e.trouble = false, ""
	e.tools, e.accepted = next, kept
	if said.static() {
		e.leave(absent)
	}
	e.known = e.known || said.static()
	c.publish(id)
	c.tell(id, gone)
}

// gone returns the published or stored tools that are not in next and may still have rules. The caller
// holds mu.
func (e *entry) gone(next []Tool) []string {
	names := e.missing(next)
	told := maps.Clone(e.absent)
	if told == nil {
		told = map[string]bool{}
	}
	for _, name := range names {
		told[name] = true
	}
	for _, name := range e.without(next) {
		if !told[name] {
			names = append(names, name)
		}
	}
	return names
}

// write deletes the rules of removed tools, then makes a change.
func (c *Catalog) write(ctx context.Context, gone []string, change Change) error {
	if c.opts.Rules != nil {
		for _, tool := range gone {
			if err := c.opts.Rules.Forget(ctx, change.Capability, tool); err != nil {
				return fmt.Errorf("delete the rules of the removed tool %s: %w", tool, err)
			}
		}
	}
	if err := c.opts.Store.Write(ctx, change); err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	return nil
}

// tell logs removed tools.
func (c *Catalog) tell(id string, gone []string) {
	if len(gone) > 0 {
		c.opts.Log.Info("tools were removed, and their rules deleted", "capability", id, "tools", gone)
	}
}

// bounded returns an error's text, for people and of bounded length.
func bounded(err error) string {
	const most = 300
	text := err.Error()
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

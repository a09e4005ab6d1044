package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/toolschema"
)

// Source is how the tools of a capability are known.
type Source string

// The sources.
const (
	Unknown    Source = "unknown"    // the fleet has no manifest
	Manifest   Source = "manifest"   // they are written in it
	Discovered Source = "discovered" // they are asked for
)

// Listing is what operators see of a capability.
type Listing struct {
	Capability string
	Source     Source
	Known      bool // there is a set of tools
	Tools      []Tool
	Guarded    bool
	Last       Last   // discoveries
	Pending    string // why the manifest's tools are not in force yet; "": they are
}

// Look is what is known of a capability, if there is a fleet of that name.
func (c *Catalog) Look(id string) (Listing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e == nil {
		return Listing{}, false
	}
	tools, known := c.Tools(id)
	return Listing{
		Capability: id, Source: e.source(), Known: known, Tools: tools, Guarded: !e.said.Unguarded, Last: e.last, Pending: e.trouble,
	}, true
}

func (e *entry) source() Source {
	switch {
	case e.said.Manifest == nil:
		return Unknown
	case e.said.dynamic():
		return Discovered
	default:
		return Manifest
	}
}

// author is what is said of a capability, with defaults.
func (c *Catalog) author(id string) (a Author, there bool) {
	of := c.capability(id)
	if of == nil || !of.author.dynamic() {
		return Author{}, false
	}
	a = of.author
	if a.Interval == 0 {
		a.Interval = DefaultInterval
	}
	if a.Timeout == 0 {
		a.Timeout = DefaultTimeout
	}
	return a, true
}

// dynamic are the capabilities whose tools are asked for.
func (c *Catalog) dynamic() (ids []string) {
	for id, of := range *c.now.Load() {
		if of.author.dynamic() {
			ids = append(ids, id)
		}
	}
	return ids
}

// Accept makes what a tool is now the accepted one, at all replicas. It refuses where that is
// not hash any more: nobody accepts what they have not seen. The error is a *call.Refusal,
// or says that the store cannot be written.
func (c *Catalog) Accept(ctx context.Context, capability, tool string, hash toolschema.Hash) error {
	t, there := c.Describe(capability, tool)
	switch {
	case !there:
		return &call.Refusal{Kind: call.NotFound, Reason: "TOOL_UNKNOWN", Message: fmt.Sprintf("%s is not known to have a tool %q", capability, tool)}
	case t.Hash != hash:
		return &call.Refusal{Kind: call.FailedPrecondition, Reason: "TOOL_CHANGED", Message: "the tool is not what this hash stands for; look at it again"}
	case c.opts.Store == nil:
		return errors.New("there is no store")
	}
	if err := c.opts.Store.Accept(ctx, capability, tool, hash); err != nil {
		return fmt.Errorf("tell the store: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[capability]; e != nil {
		e.accepted = maps.Clone(e.accepted)
		if e.accepted == nil {
			e.accepted = map[string]toolschema.Hash{}
		}
		e.accepted[tool] = hash
		c.publish(capability)
	}
	return nil
}

// Discover asks a capability for its tools now, as soon as no other replica does.
func (d *Discoverer) Discover(ctx context.Context, capability string) error {
	for {
		a, there := d.catalog.author(capability)
		if !there {
			return &call.Refusal{Kind: call.FailedPrecondition, Reason: "TOOLS_NOT_DISCOVERED", Message: "the tools of this capability are not asked for: its manifest does not say tool_source: dynamic"}
		}
		end := d.discover(ctx, capability, &a, 0)
		if !end.busy && !end.late {
			return end.err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another replica is at it: %w", ctx.Err())
		case <-time.After(min(end.wait, time.Second)):
		}
	}
}

// Counts are discoveries by this replica. They only grow.
type Counts struct{ Succeeded, Failed int64 }

// Stats is what metrics tell of a capability.
type Stats struct {
	Capability     string
	Tools, Drifted int
	Dynamic        bool // the rest is told of those alone
	Discoveries    Counts
	Succeeded      time.Time // when any replica last did; zero: never
}

// Stats yields each capability whose tools are known, or asked for.
func (c *Catalog) Stats() iter.Seq[Stats] {
	return func(yield func(Stats) bool) {
		for _, s := range c.stats() {
			if !yield(s) {
				return
			}
		}
	}
}

func (c *Catalog) stats() (all []Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, of := range *c.now.Load() {
		e := c.entries[id]
		if e == nil || of.author.Manifest == nil {
			continue
		}
		s := Stats{Capability: id, Tools: len(of.tools), Dynamic: of.author.dynamic(), Discoveries: e.counted, Succeeded: e.last.Succeeded}
		for i := range of.tools {
			if of.tools[i].Drifted {
				s.Drifted++
			}
		}
		all = append(all, s)
	}
	return all
}

package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/toolschema"
)

// Source is the origin of a capability's tools.
type Source string

// The sources.
const (
	Unknown    Source = "unknown"    // the fleet has no manifest
	Manifest   Source = "manifest"   // the manifest lists them
	Discovered Source = "discovered" // the discovery tool lists them
)

// Listing is the operators' view of a capability.
type Listing struct {
	Capability string
	Source     Source
	Known      bool // there is a set of tools
	Tools      []Tool
	Features   bool // it has prompts and resources
	Guarded    bool
	Last       DiscoveryStatus // of discoveries
	Pending    string          // why the manifest's tools are not published yet; "": they are
}

// Inspect returns the state of a capability, if it has a fleet.
func (c *Catalog) Inspect(id string) (Listing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e == nil {
		return Listing{}, false
	}
	tools, known := c.Tools(id)
	return Listing{
		Capability: id, Source: e.source(), Known: known, Tools: tools, Guarded: !e.declared.Unguarded, Last: e.last,
		Pending: e.pending, Features: e.declared.features(),
	}, true
}

func (e *entry) source() Source {
	switch {
	case e.declared.Manifest == nil:
		return Unknown
	case e.declared.dynamic():
		return Discovered
	default:
		return Manifest
	}
}

// declaration returns the declaration of a dynamic capability, with defaults filled in.
func (c *Catalog) declaration(id string) (a Declaration, there bool) {
	of := c.capability(id)
	if of == nil || !of.declared.dynamic() {
		return Declaration{}, false
	}
	a = of.declared
	if a.Discovery.Interval == 0 {
		a.Discovery.Interval = strictyaml.Defaults[Discovery]().Interval
	}
	if a.Discovery.Timeout == 0 {
		a.Discovery.Timeout = DefaultTimeout
	}
	return a, true
}

// dynamic returns the capabilities with discovered tools.
func (c *Catalog) dynamic() (ids []string) {
	for id, of := range *c.snapshot.Load() {
		if of.declared.dynamic() {
			ids = append(ids, id)
		}
	}
	return ids
}

// Accept makes hash the accepted one of a tool, at all replicas. It refuses if the tool has changed
// again: operators accept only what they have seen. The error is a *call.Refusal, or that of the store.
func (c *Catalog) Accept(ctx context.Context, capability, tool string, hash toolschema.Hash) error {
	t, there := c.Describe(capability, tool)
	switch {
	case !there:
		return &call.Refusal{Kind: call.NotFound, Reason: "TOOL_UNKNOWN",
			Message: fmt.Sprintf("capability %s has no known tool %q", capability, tool)}
	case t.Hash != hash:
		return &call.Refusal{Kind: call.FailedPrecondition, Reason: "TOOL_CHANGED",
			Message: "the tool has changed and no longer has this hash; review it again"}
	case c.opts.Store == nil:
		return errors.New("this gateway has no store of accepted tools")
	}
	if err := c.opts.Store.Accept(ctx, capability, tool, hash); err != nil {
		return fmt.Errorf("write to the store: %w", err)
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

// Discover discovers a capability's tools now, as soon as the lease is free.
func (d *Discoverer) Discover(ctx context.Context, capability string) error {
	for {
		a, there := d.catalog.declaration(capability)
		if !there {
			return &call.Refusal{Kind: call.FailedPrecondition, Reason: "TOOLS_NOT_DISCOVERED",
				Message: "the tools of this capability are not discovered: its manifest lacks tool_source: dynamic"}
		}
		end := d.discover(ctx, capability, &a, 0)
		if !end.busy && !end.recent {
			return end.err
		}
		if !backoff.Sleep(ctx, min(end.wait, time.Second)) {
			return fmt.Errorf("another replica is discovering the tools: %w", ctx.Err())
		}
	}
}

// Counts are the discoveries of this replica. They only grow.
type Counts struct{ Succeeded, Failed int64 }

// Stats are the metrics of a capability.
type Stats struct {
	Capability     string
	Tools, Drifted int
	FirstDrifted   string // the name of the first drifted tool
	Dynamic        bool   // the fields below apply only then
	Discoveries    Counts
	Succeeded      time.Time // time of the last success of any replica; zero: never
}

// Stats yields each capability with declared or discovered tools.
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
	for id, of := range *c.snapshot.Load() {
		e := c.entries[id]
		if e == nil || of.declared.Manifest == nil {
			continue
		}
		s := Stats{
			Capability: id, Tools: len(of.tools), Dynamic: of.declared.dynamic(),
			Discoveries: e.counts, Succeeded: e.last.Succeeded,
		}
		for i := range of.tools {
			if of.tools[i].Drifted {
				if s.Drifted++; s.Drifted == 1 {
					s.FirstDrifted = of.tools[i].Name
				}
			}
		}
		all = append(all, s)
	}
	return all
}

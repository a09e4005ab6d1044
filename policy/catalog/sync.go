package catalog

import (
	"context"
	"maps"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// readBatch bounds the capabilities of one read of the store.
const readBatch = 256

// Read loads the store's content, once, before Run. Without the store manifests are published
// unchecked, and reconciled when the store is back.
func (c *Catalog) Read(ctx context.Context) { c.sync(ctx) }

// Run keeps the catalog and the store in sync until ctx ends.
func (c *Catalog) Run(ctx context.Context) {
	if c.opts.Store == nil {
		<-ctx.Done()
		return
	}
	changefeed.Poll(ctx, "catalog", c.wake, c.opts.Store.Watch, func(ctx context.Context) time.Duration {
		c.sync(ctx)
		return c.opts.Round
	})
}

// sync reads the changes of the store, and writes what it lacks.
func (c *Catalog) sync(ctx context.Context) {
	if c.opts.Store == nil {
		return
	}
	err := c.read(ctx)
	for _, id := range c.unreconciled() {
		if err == nil {
			c.reconcile(ctx, id)
		}
	}
	if unavailable := err != nil && ctx.Err() == nil; unavailable != c.storeUnavailable && c.hasTools() {
		if c.storeUnavailable = unavailable; unavailable {
			c.opts.Log.Warn("the catalog of tools is unavailable: known tools stay, and manifests are used unchecked",
				"error", err)
		} else {
			c.opts.Log.Info("the catalog of tools is available again")
		}
	}
}

// hasTools reports whether the tools of any capability are declared.
func (c *Catalog) hasTools() bool {
	for _, of := range *c.snapshot.Load() {
		if of.declared.Manifest != nil {
			return true
		}
	}
	return false
}

// read reads the changes of the store.
func (c *Catalog) read(ctx context.Context) error {
	changes, err := c.opts.Store.Changed(ctx, c.position)
	if err != nil {
		return err
	}
	lost := c.position.Epoch != "" && changes.Now.Epoch != c.position.Epoch
	requests := c.requests(&changes)
	for len(requests) > 0 {
		batch := requests[:min(readBatch, len(requests))]
		all, err := c.opts.Store.Read(ctx, batch)
		if err != nil {
			return err
		}
		c.apply(batch, all, lost)
		requests = requests[len(batch):]
	}
	c.position = changes.Now
	return nil
}

// requests returns the capabilities to read.
func (c *Catalog) requests(changes *Changes) (requests []ReadRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := make(map[string]bool, len(changes.Capabilities))
	for _, id := range changes.Capabilities {
		changed[id] = true
	}
	for id, e := range c.entries {
		if e.declared.Manifest != nil && (changes.Everything || changed[id] || !e.seen) {
			requests = append(requests, ReadRequest{id, e.sum})
		}
	}
	return requests
}

// apply takes the records that were read. If the store lost its content, the accepted hashes in memory
// stay and are written again.
func (c *Catalog) apply(requests []ReadRequest, all []Record, lost bool) {
	sets := make([][]Tool, len(all))
	for i := range all {
		if all[i].Set == nil {
			continue
		}
		if tools, err := manifest.ParseTools(all[i].Set); err != nil {
			c.opts.Log.Warn("the tools that another replica discovered are invalid; the known tools stay",
				"capability", requests[i].Capability, "error", err)
		} else {
			sets[i] = toolsOf(tools)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := make([]string, 0, len(all))
	for i, w := range requests {
		e := c.entries[w.Capability]
		if e == nil || e.declared.Manifest == nil {
			continue
		}
		accepted := all[i].Accepted
		if lost && e.seen && len(e.accepted) > 0 {
			e.unreconciled = true
		}
		if e.unreconciled && e.seen {
			accepted = union(accepted, e.accepted)
		}
		e.seen, e.accepted, e.removed, e.last = true, accepted, all[i].Removed, all[i].Last
		if e.declared.dynamic() && sets[i] != nil {
			e.known, e.tools, e.sum = true, sets[i], all[i].Sum
			e.parsed = parsed{all[i].Sum, sets[i]}
		}
		changed = append(changed, w.Capability)
	}
	c.publish(changed...)
}

// union merges the accepted hashes of the store with the hashes that it lost.
func union(stored, lost map[string]toolschema.Hash) map[string]toolschema.Hash {
	all := maps.Clone(lost)
	maps.Copy(all, stored)
	return all
}

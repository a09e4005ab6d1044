package catalog

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// readAtOnce bounds the capabilities of one read of the store.
const readAtOnce = 256

// Read loads the store's content, once, before Run. Without the store manifests are published
// unchecked, and reconciled when the store is back.
func (c *Catalog) Read(ctx context.Context) { c.round(ctx) }

// Run keeps the catalog and the store in sync until ctx ends.
func (c *Catalog) Run(ctx context.Context) {
	if c.opts.Store == nil {
		<-ctx.Done()
		return
	}
	var following sync.WaitGroup
	following.Go(recovery.Loop(ctx, "catalog feed", func() { c.opts.Store.Follow(ctx, c.nudge) }))
	defer following.Wait()
	tick := time.NewTicker(c.opts.Round)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-tick.C:
		}
		recovery.Round("catalog", func() { c.round(ctx) })
	}
}

// round reads the changes of the store, and writes what it lacks.
func (c *Catalog) round(ctx context.Context) {
	if c.opts.Store == nil {
		return
	}
	err := c.read(ctx)
	for _, id := range c.unsettled() {
		if err == nil {
			c.settle(ctx, id)
		}
	}
	if away := err != nil && ctx.Err() == nil; away != c.away && c.hasTools() {
		if c.away = away; away {
			c.opts.Log.Warn("the catalog of tools is unavailable: known tools stay, and manifests are used unchecked",
				"error", err)
		} else {
			c.opts.Log.Info("the catalog of tools is available again")
		}
	}
}

// hasTools reports whether the tools of any capability are declared.
func (c *Catalog) hasTools() bool {
	for _, of := range *c.now.Load() {
		if of.author.Manifest != nil {
			return true
		}
	}
	return false
}

// read reads the changes of the store.
func (c *Catalog) read(ctx context.Context) error {
	news, err := c.opts.Store.Changed(ctx, c.since)
	if err != nil {
		return err
	}
	lost := c.since.Epoch != "" && news.Now.Epoch != c.since.Epoch
	wants := c.wants(&news)
	for len(wants) > 0 {
		some := wants[:min(readAtOnce, len(wants))]
		all, err := c.opts.Store.Read(ctx, some)
		if err != nil {
			return err
		}
		c.apply(some, all, lost)
		wants = wants[len(some):]
	}
	c.since = news.Now
	return nil
}

// wants returns the capabilities to read.
func (c *Catalog) wants(news *Changes) (wants []Want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := make(map[string]bool, len(news.Capabilities))
	for _, id := range news.Capabilities {
		changed[id] = true
	}
	for id, e := range c.entries {
		if e.said.Manifest != nil && (news.Everything || changed[id] || !e.seen) {
			wants = append(wants, Want{id, e.sum})
		}
	}
	return wants
}

// apply takes the records that were read. If the store lost its content, the accepted hashes in memory
// stay and are written again.
func (c *Catalog) apply(wants []Want, all []Shared, lost bool) {
	parsed := make([][]Tool, len(all))
	for i := range all {
		if all[i].Set == nil {
			continue
		}
		if tools, err := manifest.ParseTools(all[i].Set); err != nil {
			c.opts.Log.Warn("the tools that another replica discovered are invalid; the known tools stay",
				"capability", wants[i].Capability, "error", err)
		} else {
			parsed[i] = toolsOf(tools)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := make([]string, 0, len(all))
	for i, w := range wants {
		e := c.entries[w.Capability]
		if e == nil || e.said.Manifest == nil {
			continue
		}
		accepted := all[i].Accepted
		if lost && e.seen && len(e.accepted) > 0 {
			e.unsettled = true
		}
		if e.unsettled && e.seen {
			accepted = union(accepted, e.accepted)
		}
		e.seen, e.accepted, e.absent, e.last = true, accepted, all[i].Absent, all[i].Last
		if e.said.dynamic() && parsed[i] != nil {
			e.known, e.tools, e.sum = true, parsed[i], all[i].Sum
		}
		changed = append(changed, w.Capability)
	}
	c.publish(changed...)
}

// union merges the accepted hashes of the store with those that it lost.
func union(says, said map[string]toolschema.Hash) map[string]toolschema.Hash {
	all := maps.Clone(said)
	maps.Copy(all, says)
	return all
}

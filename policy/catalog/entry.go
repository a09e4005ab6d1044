package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// entry is the mutable state of a capability, guarded by the Catalog's lock.
type entry struct {
	said     Author
	known    bool
	tools    []Tool                     // published; Drifted is not set here
	sum      string                     // of the published discovered set; "": it is not in the store
	seen     bool                       // the store was read
	accepted map[string]toolschema.Hash // also of removed tools
	absent   map[string]bool            // of these, those whose rules are deleted already
	last     Last
	// unsettled says that the store lacks the manifest's tools, or accepted hashes. Until it has them, a
	// manifest that removes tools is not published.
	unsettled bool
	trouble   string // why reconciliation fails
	counted   Counts
}

// Replace publishes the declarations of all capabilities. It does not wait for the store, which Run
// reconciles.
func (c *Catalog) Replace(all map[string]Author) {
	c.mu.Lock()
	for id := range c.entries {
		if _, stays := all[id]; !stays {
			delete(c.entries, id)
		}
	}
	next := make(map[string]*capability, len(all))
	before := *c.now.Load()
	for id, said := range all {
		e := c.entries[id]
		switch {
		case e == nil:
			e = &entry{said: said}
			c.entries[id] = e
			e.take(c.opts.Store != nil)
		case e.said != said:
			former := e.said
			if e.said = said; former.Manifest != said.Manifest {
				e.take(c.opts.Store != nil)
			} else if former.Elsewhere != said.Elsewhere && said.static() {
				e.unsettled = c.opts.Store != nil // removed tools may have been kept
			}
		default:
			next[id] = before[id]
			continue
		}
		next[id] = e.build()
	}
	c.now.Store(&next)
	ids := slices.Sorted(maps.Keys(next))
	c.ids.Store(&ids)
	c.mu.Unlock()
	c.nudge()
}

// take sets another manifest. shared says that there is a store to reconcile.
func (e *entry) take(shared bool) {
	e.unsettled, e.trouble = false, ""
	switch {
	case e.said.Manifest == nil:
		e.known, e.tools, e.sum = false, nil, ""
	case e.said.dynamic():
		e.seen = false // the store may have the discovered tools
	default:
		e.unsettled, e.sum = shared, ""
		if next := toolsOf(e.said.Manifest.Tools); !shared || !e.known || len(e.missing(next)) == 0 {
			e.known, e.tools = true, next
		}
	}
}

// toolsOf adds hashes to tools.
func toolsOf(all []manifest.Tool) []Tool {
	tools := make([]Tool, len(all))
	for i := range all {
		tools[i] = Tool{Tool: all[i], Hash: all[i].Schema.Hash(all[i].Description)}
	}
	return tools
}

// missing returns the names of the tools of before that next lacks.
func missing(before, next []Tool) (names []string) {
	there := make(map[string]bool, len(next))
	for i := range next {
		there[next[i].Name] = true
	}
	for i := range before {
		if !there[before[i].Name] {
			names = append(names, before[i].Name)
		}
	}
	return names
}

// build makes the snapshot of an entry.
func (e *entry) build() *capability {
	next := &capability{
		author: e.said, known: e.known,
		tools: make([]Tool, len(e.tools)), index: make(map[string]*Tool, len(e.tools)),
	}
	copy(next.tools, e.tools)
	for i := range next.tools {
		t := &next.tools[i]
		if accepted, ok := e.accepted[t.Name]; !e.said.Unguarded {
			t.Drifted = ok && accepted != t.Hash || !ok && len(e.accepted) >= MostAccepted
		}
		next.index[t.Name] = t
	}
	return next
}

// publish publishes changed entries. The caller holds mu.
func (c *Catalog) publish(ids ...string) {
	next := maps.Clone(*c.now.Load())
	for _, id := range ids {
		if e := c.entries[id]; e != nil {
			next[id] = e.build()
		}
	}
	c.now.Store(&next)
}

// MostAccepted bounds the accepted hashes of a capability, including those of removed tools. No hash is
// evicted: a new tool beyond the limit counts as changed, until an operator accepts it.
const MostAccepted = 4 * manifest.MaxTools

// accepts adds the hashes of new tools to the accepted ones. Those of removed tools stay, so that a tool
// that comes back is compared with its former version.
func (e *entry) accepts(tools []Tool) map[string]toolschema.Hash {
	next := make(map[string]toolschema.Hash, len(e.accepted)+len(tools))
	maps.Copy(next, e.accepted)
	for i := range tools {
		t := &tools[i]
		if _, ok := next[t.Name]; !ok && len(next) < MostAccepted {
			next[t.Name] = t.Hash
		}
	}
	return next
}

// without returns the tools with accepted hashes that are neither in next nor declared elsewhere.
func (e *entry) without(next []Tool) []string {
	there := e.elsewhere()
	for i := range next {
		there[next[i].Name] = true
	}
	var names []string
	for name := range e.accepted {
		if !there[name] {
			names = append(names, name)
		}
	}
	return names
}

// leave records the removed tools, whose rules are deleted.
func (e *entry) leave(absent []string) {
	e.absent = make(map[string]bool, len(absent))
	for _, name := range absent {
		e.absent[name] = true
	}
}

// elsewhere returns the names of Author.Elsewhere.
func (e *entry) elsewhere() map[string]bool {
	names := map[string]bool{}
	for name := range strings.SplitSeq(e.said.Elsewhere, "\n") {
		names[name] = true
	}
	return names
}

// missing returns the published tools that next removes.
func (e *entry) missing(next []Tool) []string {
	elsewhere := e.elsewhere()
	return slices.DeleteFunc(missing(e.tools, next), func(name string) bool { return elsewhere[name] })
}

// nudge wakes up Run.
func (c *Catalog) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

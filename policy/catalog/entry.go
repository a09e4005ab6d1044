package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// entry is the mutable state of a capability, guarded by the Catalog's lock.
type entry struct {
	declared Declaration
	known    bool
	tools    []Tool                     // published; Drifted is not set here
	sum      string                     // of the published discovered set; "": it is not in the store
	parsed   parsed                     // the last discovered set
	seen     bool                       // the store was read
	accepted map[string]toolschema.Hash // also of removed tools
	removed  map[string]bool            // removed tools without rules
	last     DiscoveryStatus
	// unreconciled says that the store lacks the manifest's tools, or accepted hashes. Until it has them, a
	// manifest that removes tools is not published.
	unreconciled bool
	pending      string // why reconciliation fails
	counts       Counts
}

// Replace publishes the declarations of all capabilities. It does not wait for the store, which Run
// reconciles.
func (c *Catalog) Replace(all map[string]Declaration) {
	c.mu.Lock()
	for id := range c.entries {
		if _, stays := all[id]; !stays {
			delete(c.entries, id)
		}
	}
	next := make(map[string]*capability, len(all))
	before := *c.snapshot.Load()
	for id, declared := range all {
		e := c.entries[id]
		switch {
		case e == nil:
			e = &entry{declared: declared}
			c.entries[id] = e
			e.setManifest(c.opts.Store != nil)
		case e.declared != declared:
			former := e.declared
			if e.declared = declared; former.Manifest != declared.Manifest {
				e.setManifest(c.opts.Store != nil)
			} else if former.ToolsElsewhere != declared.ToolsElsewhere && declared.static() {
				e.unreconciled = c.opts.Store != nil // removed tools may have been kept
			}
		default:
			next[id] = before[id]
			continue
		}
		next[id] = e.build()
	}
	c.snapshot.Store(&next)
	ids := slices.Sorted(maps.Keys(next))
	c.ids.Store(&ids)
	c.mu.Unlock()
	c.opts.Changed("")
	signal.Wake(c.published)
	signal.Wake(c.wake)
}

// setManifest sets another manifest. shared says that there is a store to reconcile.
func (e *entry) setManifest(shared bool) {
	e.unreconciled, e.pending = false, ""
	switch {
	case e.declared.Manifest == nil:
		e.known, e.tools, e.sum = false, nil, ""
	case e.declared.dynamic():
		e.seen = false // the store may have the discovered tools
	default:
		e.unreconciled, e.sum = shared, ""
		if next := toolsOf(e.declared.Manifest.Tools); !shared || !e.known || len(e.removedTools(next)) == 0 {
			e.known, e.tools = true, next
		}
	}
}

// toolsOf adds hashes to tools.
func toolsOf(all []manifest.Tool) []Tool {
	tools := make([]Tool, len(all))
	for i := range all {
		tools[i] = Tool{Tool: all[i], Hash: all[i].Hash()}
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

// build makes the snapshot of an entry. Its tools have no recommendation that does not count.
func (e *entry) build() *capability {
	next := &capability{
		declared: e.declared, known: e.known,
		tools: make([]Tool, len(e.tools)), index: make(map[string]*Tool, len(e.tools)),
	}
	copy(next.tools, e.tools)
	for i := range next.tools {
		t := &next.tools[i]
		if accepted, ok := e.accepted[t.Name]; !e.declared.Unguarded {
			t.Drifted = ok && accepted != t.Hash || !ok && len(e.accepted) >= MaxAccepted
		}
		t.Recommends = t.Recommends && next.recommends(t.Recommended)
		next.index[t.Name] = t
	}
	return next
}

// publish publishes changed entries. The caller holds mu.
func (c *Catalog) publish(ids ...string) {
	next := maps.Clone(*c.snapshot.Load())
	for _, id := range ids {
		if e := c.entries[id]; e != nil {
			next[id] = e.build()
		}
	}
	c.snapshot.Store(&next)
	signal.Wake(c.published)
	for _, id := range ids {
		c.opts.Changed(id)
	}
}

// MaxAccepted bounds the accepted hashes of a capability, including those of removed tools. No hash is
// evicted: a new tool beyond the limit counts as changed, until an operator accepts it.
const MaxAccepted = 4 * manifest.MaxTools

// mergeAccepted adds the hashes of new tools to the accepted ones. Those of removed tools stay, so that a tool
// that comes back is compared with its former version.
func (e *entry) mergeAccepted(tools []Tool) map[string]toolschema.Hash {
	next := make(map[string]toolschema.Hash, len(e.accepted)+len(tools))
	maps.Copy(next, e.accepted)
	for i := range tools {
		t := &tools[i]
		if _, ok := next[t.Name]; !ok && len(next) < MaxAccepted {
			next[t.Name] = t.Hash
		}
	}
	return next
}

// removedAccepted returns the tools with accepted hashes that are neither in next nor declared elsewhere.
func (e *entry) removedAccepted(next []Tool) []string {
	there := e.declaredElsewhere()
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

// markRemoved records the removed tools after the deletion of their rules.
func (e *entry) markRemoved(absent []string) {
	e.removed = make(map[string]bool, len(absent))
	for _, name := range absent {
		e.removed[name] = true
	}
}

// declaredElsewhere returns the names of Author.Elsewhere.
func (e *entry) declaredElsewhere() map[string]bool {
	names := map[string]bool{}
	for name := range strings.SplitSeq(e.declared.ToolsElsewhere, "\n") {
		names[name] = true
	}
	return names
}

// removedTools returns the published tools that next removes.
func (e *entry) removedTools(next []Tool) []string {
	elsewhere := e.declaredElsewhere()
	return slices.DeleteFunc(missing(e.tools, next), func(name string) bool { return elsewhere[name] })
}

package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// entry is a capability as it is kept, under the Catalog's lock.
type entry struct {
	said     Author
	known    bool
	tools    []Tool                     // in force; Drifted is not set here
	sum      string                     // of the discovered set in force; "": it is not one that the store has
	seen     bool                       // the store was read
	accepted map[string]toolschema.Hash // also of tools that are absent
	absent   map[string]bool            // of these, those whose rules are deleted already
	last     Last
	// unsettled: the store has to be told of the manifest's tools, or again of what was accepted.
	// Until then a manifest without some of the tools in force is not in force itself.
	unsettled bool
	trouble   string // why it still is
	counted   Counts
}

// Replace puts what is said of all capabilities in force. It does not wait for the store: Run
// makes good what has to be done there.
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
				e.unsettled = c.opts.Store != nil // what was kept may be gone
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

// take goes on with another manifest. shared says that there is a store to be told of it.
func (e *entry) take(shared bool) {
	e.unsettled, e.trouble = false, ""
	switch {
	case e.said.Manifest == nil:
		e.known, e.tools, e.sum = false, nil, ""
	case e.said.dynamic():
		e.seen = false // what was discovered is in the store, perhaps
	default:
		e.unsettled, e.sum = shared, ""
		if next := toolsOf(e.said.Manifest.Tools); !shared || !e.known || len(e.missing(next)) == 0 {
			e.known, e.tools = true, next
		}
	}
}

// toolsOf are tools with their hashes.
func toolsOf(all []manifest.Tool) []Tool {
	tools := make([]Tool, len(all))
	for i := range all {
		tools[i] = Tool{Tool: all[i], Hash: all[i].Schema.Hash(all[i].Description)}
	}
	return tools
}

// missing are the names of the tools of before that next has not.
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

// build makes what readers see of an entry.
func (e *entry) build() *capability {
	next := &capability{author: e.said, known: e.known, tools: make([]Tool, len(e.tools)), index: make(map[string]*Tool, len(e.tools))}
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

// publish puts entries that have changed in force. The caller holds mu.
func (c *Catalog) publish(ids ...string) {
	next := maps.Clone(*c.now.Load())
	for _, id := range ids {
		if e := c.entries[id]; e != nil {
			next[id] = e.build()
		}
	}
	c.now.Store(&next)
}

// MostAccepted is of how many tools a capability's accepted hashes are kept, absent ones among them. Nothing is
// forgotten to make room: a tool that is new then counts as changed, until an operator accepts it.
const MostAccepted = 4 * manifest.MaxTools

// accepts is what a set of tools makes of the accepted hashes. Those of tools that are absent stay, so that a
// tool that comes back is compared with what it was.
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

// without are the tools of accepted hashes that are neither in next nor elsewhere.
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

// leave takes note of the tools that are absent, and have no rules any more.
func (e *entry) leave(absent []string) {
	e.absent = make(map[string]bool, len(absent))
	for _, name := range absent {
		e.absent[name] = true
	}
}

// elsewhere has the names of Author.Elsewhere.
func (e *entry) elsewhere() map[string]bool {
	names := map[string]bool{}
	for name := range strings.SplitSeq(e.said.Elsewhere, "\n") {
		names[name] = true
	}
	return names
}

// missing are the tools in force that are gone with next.
func (e *entry) missing(next []Tool) []string {
	elsewhere := e.elsewhere()
	return slices.DeleteFunc(missing(e.tools, next), func(name string) bool { return elsewhere[name] })
}

func (c *Catalog) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

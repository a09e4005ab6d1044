package toolset

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Sets are the toolsets of a gateway. They are immutable. nil has none.
type Sets struct {
	all    []*Set // in the order of the configuration
	byName map[string][]*Set
}

// Set is a toolset. It is immutable.
type Set struct {
	of    *Toolset
	exact map[tool]*Entry   // entries with exact names
	named map[string]*Entry // entries with a name for clients
	wide  []*Entry          // other entries, in their order
}

type tool struct{ capability, name string }

// New returns the Sets of a configuration, which must not change.
func New(all []Toolset) *Sets {
	s := &Sets{byName: map[string][]*Set{}}
	for i := range all {
		one := newSet(&all[i])
		s.all, s.byName[all[i].Name] = append(s.all, one), append(s.byName[all[i].Name], one)
	}
	return s
}

func newSet(of *Toolset) *Set {
	s := &Set{of: of, exact: map[tool]*Entry{}, named: map[string]*Entry{}}
	for i := range of.Tools {
		e := &of.Tools[i]
		if !e.isExact() {
			s.wide = append(s.wide, e)
			continue
		}
		s.exact[tool{e.Capability, e.Tool}] = e
		if e.Name != "" {
			s.named[e.Name] = e
		}
	}
	return s
}

// Find returns the toolset with a name for a caller of a tenant, in groups; nil: there is none.
func (s *Sets) Find(name, tenant string, groups []string) *Set {
	if s == nil {
		return nil
	}
	for _, one := range s.byName[name] {
		if one.isFor(tenant, groups) {
			return one
		}
	}
	return nil
}

// Of returns the toolsets of a caller, sorted by name.
func (s *Sets) Of(tenant string, groups []string) (all []*Set) {
	if s == nil {
		return nil
	}
	for _, one := range s.all {
		if one.isFor(tenant, groups) && s.Find(one.of.Name, tenant, groups) == one {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b *Set) int { return cmp.Compare(a.of.Name, b.of.Name) })
	return all
}

// isFor reports whether the callers of a toolset include a caller.
func (s *Set) isFor(tenant string, groups []string) bool {
	return (len(s.of.Tenants) == 0 || slices.Contains(s.of.Tenants, tenant)) &&
		(len(s.of.Groups) == 0 || slices.ContainsFunc(groups, func(g string) bool {
			return slices.Contains(s.of.Groups, g)
		}))
}

// Name returns the name of the toolset.
func (s *Set) Name() string { return s.of.Name }

// Entry returns the entry that chooses a tool; nil: the toolset does not have the tool. s may be nil.
func (s *Set) Entry(capability, name string) *Entry {
	if s == nil {
		return nil
	}
	if e := s.exact[tool{capability, name}]; e != nil {
		return e
	}
	for _, e := range s.wide {
		if e.Matches(capability, name) {
			return e
		}
	}
	return nil
}

// Named returns the entry that gives a tool a name for clients; nil: there is none.
func (s *Set) Named(name string) *Entry { return s.named[name] }

// Has reports whether the toolset may have a tool of a capability.
func (s *Set) Has(capability string) bool {
	return slices.ContainsFunc(s.of.Tools, func(e Entry) bool { return e.Has(capability) })
}

// Has reports whether an entry may choose tools of a capability.
func (e *Entry) Has(capability string) bool { return matches(e.Capability, capability) }

// Matches reports whether an entry chooses a tool.
func (e *Entry) Matches(capability, name string) bool {
	return e.Has(capability) && matches(e.Tool, name)
}

// isPattern reports whether a text has the special characters of patterns.
func isPattern(text string) bool { return strings.ContainsAny(text, `*?[\`) }

// matches reports whether a pattern matches a name.
func matches(pattern, name string) bool {
	if pattern == "*" || pattern == name {
		return true
	}
	prefix, more := strings.CutSuffix(pattern, "*")
	if !isPattern(prefix) && (!more || !strings.HasPrefix(name, prefix)) {
		return false
	}
	ok, _ := path.Match(pattern, name)
	return ok
}

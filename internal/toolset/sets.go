package toolset

import (
	"cmp"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/toolschema"
)

// Sets holds the toolsets of a gateway, which may change. A nil *Sets is empty.
type Sets struct{ now atomic.Pointer[sets] }

// sets are toolsets at some time. They are immutable.
type sets struct {
	all    []*Set // in the order of precedence
	unread bool   // there may be stored ones that are not known yet
	named  map[id][]placed
	owned  map[string][]*Set // by tenant; those of all tenants at ""
	hashed map[tool][]*Set   // those with a hash of a tool
}

// placed is a toolset with its place in the order of precedence.
type placed struct {
	*Set
	at int
}

// Set is a toolset. It is immutable.
type Set struct {
	of     *Toolset
	record *stored.Record    // nil for a toolset of the configuration
	exact  map[tool]*Entry   // entries with exact names
	named  map[string]*Entry // entries with a name for clients
	wide   []*Entry          // other entries, in their order
}

type tool struct{ capability, name string }

// id is the name of a toolset of a tenant; the tenant "" means all.
type id struct{ tenant, name string }

// Caller is a caller of toolsets.
type Caller struct {
	Tenant, UID string // UID of the tenant; "" for one of the configuration
	Groups      []string
}

// New returns the Sets of a configuration, which must not change.
func New(all []Toolset) *Sets {
	s := &Sets{}
	s.now.Store(newSets(fileSets(all)))
	return s
}

func fileSets(all []Toolset) (sets []*Set) {
	for i := range all {
		sets = append(sets, newSet(&all[i]))
	}
	return sets
}

func newSets(all []*Set) *sets {
	s := &sets{all: all, named: map[id][]placed{}, owned: map[string][]*Set{}, hashed: map[tool][]*Set{}}
	for i, one := range all {
		for _, of := range one.ids() {
			s.named[of] = append(s.named[of], placed{one, i})
			s.owned[of.tenant] = append(s.owned[of.tenant], one)
		}
		for of, e := range one.exact {
			if e.Hash != (toolschema.Hash{}) {
				s.hashed[of] = append(s.hashed[of], one)
			}
		}
	}
	return s
}

// ids returns the tenants of a toolset with its name; the tenant "" means all.
func (s *Set) ids() (all []id) {
	if len(s.of.Tenants) == 0 {
		return []id{{"", s.of.Name}}
	}
	for _, tenant := range s.of.Tenants {
		all = append(all, id{tenant, s.of.Name})
	}
	return all
}

func newSet(of *Toolset) *Set {
	s := &Set{of: of, exact: map[tool]*Entry{}, named: map[string]*Entry{}}
	for i := range of.Tools {
		e := &of.Tools[i]
		if !e.IsExact() {
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

// load returns the toolsets of now. s may be nil.
func (s *Sets) load() *sets {
	if s == nil {
		return &sets{}
	}
	return s.now.Load()
}

// Find returns the toolset with a name for a caller, or nil.
func (s *Sets) Find(name string, of Caller) *Set { return s.load().find(name, of) }

func (s *sets) find(name string, of Caller) *Set {
	first := placed{at: len(s.all)}
	for _, tenant := range []string{of.Tenant, ""} {
		for _, one := range s.named[id{tenant, name}] {
			if one.at < first.at && one.isFor(of) {
				first = one
			}
		}
	}
	return first.Set
}

// Unread reports whether there may be stored toolsets that are not known yet.
func (s *Sets) Unread() bool { return s.load().unread }

// Of returns the toolsets of a caller, sorted by name.
func (s *Sets) Of(of Caller) (all []*Set) {
	now := s.load()
	for _, tenant := range []string{of.Tenant, ""} {
		for _, one := range now.owned[tenant] {
			if now.find(one.of.Name, of) == one {
				all = append(all, one)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Set) int { return cmp.Compare(a.of.Name, b.of.Name) })
	return slices.Compact(all)
}

// All returns all toolsets, in the order of precedence.
func (s *Sets) All() []*Set { return s.load().all }

// Changed returns the toolsets that have another hash of a tool.
func (s *Sets) Changed(capability, name string, hash toolschema.Hash) (all []*Set) {
	for _, one := range s.load().hashed[tool{capability, name}] {
		if one.Entry(capability, name).Changed(hash, true) {
			all = append(all, one)
		}
	}
	return all
}

// View holds the toolsets of all callers at some time.
type View struct{ of *sets }

// View returns the View of now.
func (s *Sets) View() View { return View{s.load()} }

// Changes returns the tenants whose callers may have other toolsets than before; everybody means all tenants.
func (v View) Changes(before View) (tenants []string, everybody bool) {
	if v.of == before.of {
		return nil, false
	}
	differ := func(these, others *sets) {
		kept := map[*Set]bool{}
		for _, one := range others.all {
			kept[one] = true
		}
		for _, one := range these.all {
			if kept[one] || slices.ContainsFunc(others.named[one.ids()[0]], func(o placed) bool {
				return one.isSame(o.Set)
			}) {
				continue
			}
			if len(one.of.Tenants) == 0 {
				everybody = true
			}
			tenants = append(tenants, one.of.Tenants...)
		}
	}
	differ(v.of, before.of)
	differ(before.of, v.of)
	if len(tenants) == 0 && !everybody { // at most in another order
		everybody = !slices.EqualFunc(v.of.all, before.of.all, (*Set).isSame)
	}
	slices.Sort(tenants)
	return slices.Compact(tenants), everybody
}

// isSame reports whether callers see no difference between toolsets.
func (s *Set) isSame(o *Set) bool {
	return s == o || s.uid() == o.uid() && (s.record == nil) == (o.record == nil) && reflect.DeepEqual(s.of, o.of)
}

func (s *Set) uid() string {
	if s.record == nil {
		return ""
	}
	return s.record.UID
}

// IsFor reports whether a toolset is for callers of a tenant, or for some of them. A stored toolset is for the tenant
// that set it, and not for a later one of the same name.
func (s *Set) IsFor(tenant, uid string) bool {
	return len(s.of.Tenants) == 0 ||
		slices.Contains(s.of.Tenants, tenant) && (s.record == nil || s.record.UID == uid)
}

// HasTenant reports whether a toolset of one tenant is that of an existing one, as exists reports. It is true for the
// toolsets of the configuration and of all tenants.
func (s *Set) HasTenant(exists func(id, uid string) bool) bool {
	return s.record == nil || s.record.Tenant == "" || exists(s.record.Tenant, s.record.UID)
}

// isFor reports whether the callers of a toolset include a caller.
func (s *Set) isFor(of Caller) bool {
	return s.IsFor(of.Tenant, of.UID) && (len(s.of.Groups) == 0 ||
		slices.ContainsFunc(of.Groups, func(g string) bool {
			return slices.Contains(s.of.Groups, g)
		}))
}

// Toolset returns the toolset, which must not change.
func (s *Set) Toolset() *Toolset { return s.of }

// Source returns where a toolset is from: "file" for the configuration, or "redis".
func (s *Set) Source() string {
	if s.record == nil {
		return "file"
	}
	return "redis"
}

// Record returns the record of a stored toolset; nil for one of the configuration.
func (s *Set) Record() *stored.Record { return s.record }

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

// Named returns the entry that gives a tool a name for clients, or nil. s may be nil.
func (s *Set) Named(name string) *Entry {
	if s == nil {
		return nil
	}
	return s.named[name]
}

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

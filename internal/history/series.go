package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Kind is the kind of a series.
type Kind string

// The kinds.
const (
	Fleet   Kind = "f"
	Backend Kind = "b"
	Tool    Kind = "t"
	Tenant  Kind = "n"
)

// Other is the name of the tools, backends and tenants that are not counted apart.
const Other = "other"

// Series identifies a separately counted fleet, backend, tool or tenant.
type Series struct {
	Kind  Kind
	Group string // capability; "" for a tenant
	Name  string // tool or address; for a tenant its UID, or "=" and its id if it has none; "" for a fleet
}

// TenantSeries returns the series of a tenant. A tenant that gets the id of a deleted one has another series.
func TenantSeries(id, uid string) Series {
	if uid == "" {
		return Series{Kind: Tenant, Name: "=" + id}
	}
	return Series{Kind: Tenant, Name: uid}
}

// maxName bounds a name in a series, in bytes.
const maxName = 200

// Field returns the name under which stores have the series.
func (s Series) Field() string {
	return string(s.Kind) + "\x1f" + untrusted.Truncate(s.Group, maxName) + "\x1f" + untrusted.Truncate(s.Name, maxName)
}

// ParseField reads the name of a series.
func ParseField(field string) (s Series, ok bool) {
	parts := strings.Split(field, "\x1f")
	if len(parts) != 3 {
		return Series{}, false
	}
	return Series{Kind: Kind(parts[0]), Group: parts[1], Name: parts[2]}, true
}

// Others returns the series for everything of a kind, or of a capability's tools and backends, that has no series.
func (s Series) Others() Series {
	switch s.Kind {
	case Backend, Tool:
		return Series{Kind: s.Kind, Group: s.Group, Name: Other}
	case Tenant:
		return Series{Kind: Tenant, Name: Other}
	case Fleet:
	}
	return Series{Kind: Fleet, Group: Other}
}

// kindNames are the kinds, in words.
var kindNames = map[Kind]string{ //nolint:gochecknoglobals // a constant
	Fleet: "fleet", Backend: "backend", Tool: "tool", Tenant: "tenant"}

// kinds is the number of kinds.
const kinds = 4

// part names what shares a part of the series: those of a kind, and of a capability.
type part struct {
	kind  Kind
	group string
}

// maxIdle is the number of publications without a call after which a series gives up its place.
const maxIdle = 60

// counted is the point of a series, and its place among those that are counted apart.
type counted struct {
	Point
	of   Series
	idle int // publications since the last call or look
}

// points are counts of this replica. A kind has at most most series, and the tools and the backends of a capability at
// most their equal part of those, besides the series of the others.
type points struct {
	at      time.Time // of the end
	most    int
	groups  int // number of capabilities, at least 1
	all     map[Series]*counted
	tenants map[tenantID]Series // so that a known tenant allocates nothing
	sizes   map[part]int
	ended   map[part][]Series // backends that nothing looked at during the last publication; the longest ended is last
	unsent  []Entry           // that the store has not accepted yet; nil: none was sent
}

// tenantID identifies a tenant.
type tenantID struct{ id, uid string }

func newPoints(most, groups int) *points {
	return &points{most: most, groups: max(1, groups), all: map[Series]*counted{}, sizes: map[part]int{},
		ended: map[part][]Series{}, tenants: map[tenantID]Series{}}
}

// next returns empty points in which every series keeps its place that was counted within the last maxIdle
// publications. Those that were counted last come first.
func (p *points) next() *points {
	next := newPoints(p.most, p.groups)
	known := slices.SortedFunc(maps.Keys(p.all), func(a, b Series) int {
		return cmp.Or(cmp.Compare(p.all[a].idle, p.all[b].idle), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range known {
		idle := p.all[s].idle + 1
		if !p.all[s].Empty() {
			idle = 0
		}
		if idle < maxIdle && s != s.Others() {
			next.keep(s, idle)
		}
		if in, _ := next.part(s); s.Kind == Backend && idle > 0 && next.all[s] != nil {
			next.ended[in] = append(next.ended[in], s)
		}
	}
	for id, s := range p.tenants {
		if next.all[s] != nil {
			next.tenants[id] = s
		}
	}
	return next
}

// keep gives a series a place if there is one.
func (p *points) keep(s Series, idle int) {
	if p.all[s] == nil && p.take(s) {
		p.all[s] = &counted{of: s, idle: idle}
	}
}

// part returns the part of a series, and its bound.
func (p *points) part(s Series) (in part, most int) {
	if s.Kind == Backend || s.Kind == Tool {
		return part{s.Kind, s.Group}, max(1, p.most/p.groups)
	}
	return part{kind: s.Kind}, p.most
}

// take takes the place of a new series. It reports false if there are too many.
func (p *points) take(s Series) bool {
	in, most := p.part(s)
	if p.sizes[in] >= most {
		return false
	}
	p.sizes[part{in.kind, strings.Clone(in.group)}]++
	return true
}

// displace takes the place of the backend that ended first. It reports false if there is none.
func (p *points) displace(s Series) bool {
	in, _ := p.part(s)
	for ended := p.ended[in]; len(ended) > 0; ended = p.ended[in] {
		last := ended[len(ended)-1]
		p.ended[in] = ended[:len(ended)-1]
		if at := p.all[last]; at != nil && at.Empty() {
			delete(p.all, last)
			return true
		}
	}
	return false
}

// of returns the point of a series, or that of the others if there are too many. It allocates for a series that is new.
func (p *points) of(s Series) (point *counted, apart bool) {
	if at := p.all[s]; at != nil {
		return at, true
	}
	if other := s.Others(); s != other && !p.take(s) && !p.displace(s) {
		point, _ = p.of(other)
		return point, false
	}
	at := &counted{of: Series{s.Kind, strings.Clone(s.Group), strings.Clone(s.Name)}}
	p.all[at.of] = at
	return at, true
}

// tenant returns the series of a tenant.
func (p *points) tenant(id, uid string) Series {
	s, known := p.tenants[tenantID{id, uid}]
	if !known {
		s = TenantSeries(strings.Clone(id), strings.Clone(uid))
		if len(p.tenants) < p.most {
			p.tenants[tenantID{strings.Clone(id), strings.Clone(uid)}] = s
		}
	}
	return s
}

// entries returns the points of all spans.
func (p *points) entries() (all []Entry) {
	for of, point := range p.all {
		if point.Empty() {
			continue
		}
		e := Entry{Series: of.Field(), Other: of.Others().Field(), Text: point.Text()}
		for _, span := range spans {
			e.Step = Step{span, span.Number(p.at)}
			all = append(all, e)
		}
	}
	return all
}

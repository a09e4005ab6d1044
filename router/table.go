package router

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// Config describes a table.
type Config struct {
	Domains []string // an :authority weather.<domain> names the capability weather
	Zone    string   // the gateway's own: calls stay in it while it has capacity; default no preference
	Fleets  []FleetConfig

	// Clock must not go back; default time.Now. Later tables keep the first table's clock.
	Clock func() time.Time
	// Limits is needed by limited fleets, and is shared by all tables of a Router.
	Limits *Limits
	// Ejected, if set, is called for each ejection. It runs on the path of a call and must not block.
	Ejected func(b *Backend, why Class, lasts time.Duration)
}

// Table is the routing configuration. It is immutable, except for the health of its backends.
type Table struct {
	fleets      map[string]*Fleet // by capability
	index       index             // the same, for the path of a call
	services    map[string]*Fleet // by gRPC service
	domains     []string          // lower-case
	ordered     []*Fleet          // as configured
	nextID      int               // larger than every ID used so far
	zone        string
	clock       *clock
	onEjection  func(*Backend, Class, time.Duration) // called for each ejection
	limits      *Limits
	hasPrevious bool          // there was a table before
	noKey       *call.Refusal // the refusal of calls that name no capability
}

// NewTable makes a table. A fleet whose configuration equals that in prev, which may be nil, is
// reused: one new backend among 10,000 fleets costs one new fleet. A backend with the same
// capability, address, session, dialect and transport is reused as well, with its in-flight count and
// its state. Other backends are Unknown until health reports on them. The table keeps what cfg points
// to.
func NewTable(cfg Config, prev *Table) (*Table, error) {
	t := &Table{
		fleets:      make(map[string]*Fleet, len(cfg.Fleets)),
		services:    make(map[string]*Fleet),
		ordered:     make([]*Fleet, 0, len(cfg.Fleets)),
		zone:        cfg.Zone,
		onEjection:  cfg.Ejected,
		limits:      cfg.Limits,
		hasPrevious: prev != nil,
	}
	if prev == nil {
		t.clock = newClock(cfg.Clock)
	} else {
		t.nextID, t.clock = prev.nextID, prev.clock
	}
	for _, d := range cfg.Domains {
		t.domains = append(t.domains, strings.ToLower(d))
	}
	for i := range cfg.Fleets {
		if err := t.add(&cfg.Fleets[i], prev); err != nil {
			return nil, fmt.Errorf("routing table: %w", err)
		}
	}
	t.index = newIndex(t.ordered)
	t.noKey = keyMissing(t.domains)
	return t, nil
}

// add puts a fleet into the table: prev's if it is unchanged, else a new one.
func (t *Table) add(cfg *FleetConfig, prev *Table) error {
	if t.fleets[cfg.Capability] != nil {
		return fmt.Errorf("capability %s has two fleets", cfg.Capability)
	}
	var f, before *Fleet
	if prev != nil {
		before = prev.fleets[cfg.Capability]
	}
	if before != nil && prev.zone == t.zone && reflect.DeepEqual(&before.cfg, cfg) {
		f = before
	} else {
		var err error
		if f, err = t.newFleet(cfg, before); err != nil {
			return err
		}
	}
	for _, s := range cfg.Services {
		if other := t.services[s]; other != nil {
			return fmt.Errorf("service %s belongs to two fleets, %s and %s", s, other.Capability, f.Capability)
		}
		t.services[s] = f
	}
	t.fleets[f.Capability] = f
	t.ordered = append(t.ordered, f)
	return nil
}

// newFleet makes a fleet, which reuses the backends of before that stay.
func (t *Table) newFleet(cfg *FleetConfig, before *Fleet) (*Fleet, error) {
	// The copies of the names are adjacent, too.
	f := &Fleet{Capability: strings.Clone(cfg.Capability), details: &details{
		Deadlines: cfg.Deadlines.withDefaults(), cfg: *cfg,
		ejection: cfg.Ejection.withDefaults(), retries: cfg.Retries.withDefaults(),
		slowStart:  cmp.Or(cfg.SlowStart, defaults().SlowStart),
		idempotent: newDeclared(cfg.Idempotent), eventSource: newDeclared(cfg.EventSource),
		limit: cfg.Limit.withDefaults(), assertion: cfg.Assertion,
	}}
	f.clock = t.clock
	if before != nil {
		f.state = before.state
	} else {
		f.state = &fleetState{clock: t.clock, onEjection: t.onEjection}
		f.state.fleet.Store(f)
	}
	stay := before.backendsFor(cfg)
	seen := make(map[string]bool, len(cfg.Backends))
	loads := make([]load, len(cfg.Backends))
	for i, c := range cfg.Backends {
		if seen[c.Addr] {
			return nil, fmt.Errorf("fleet %s names backend %s twice", cfg.Capability, c.Addr)
		}
		seen[c.Addr] = true
		b := stay[c.Addr]
		if c.Dialect == call.Auto {
			c.Dialect = cfg.Dialect
		}
		if b == nil || b.Session != c.Session || b.Tenant != c.Tenant || b.Host != c.Host || b.configured != c.Dialect {
			b = newBackend(t.nextID, cfg, c, f.state, &loads[i])
			b.availability.excluded = before != nil // a joining backend has a slow start
			if t.hasPrevious && c.Dialect == call.Auto {
				b.warming.Store(&warming{})
			}
			t.nextID++
		}
		f.Backends = append(f.Backends, b)
		f.members = append(f.members, member{
			Backend: b, weight: weight(c.Weight), inZone: t.zone != "" && c.Zone == t.zone, limit: cfg.Limit.of(&c),
		})
	}
	f.setAffinity(cfg.Affinity)
	if len(stay) == 0 {
		f.loads = loads
	}
	known := health.NewSnapshot(f.Capability, nil)
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	if before != nil {
		known = before.health
	}
	f.setHealth(known)
	if err := f.setLimiter(t.limits); err != nil {
		return nil, err
	}
	if before == nil && f.limiter != nil {
		f.limiter.configure(f)
	}
	return f, nil
}

// backendsFor returns the fleet's backends that another configuration may reuse, by address. A backend that changes
// its protocol is not reused, since its connections depend on it. The fleet may be nil.
func (f *Fleet) backendsFor(cfg *FleetConfig) map[string]*Backend {
	if f == nil || f.cfg.Secure != cfg.Secure || f.Protocol().Traits() != cfg.protocol().Traits() {
		return nil
	}
	same := make(map[string]*Backend, len(f.Backends))
	for _, b := range f.Backends {
		same[b.Addr] = b
	}
	return same
}

// Fleet returns the fleet of a capability, or nil.
func (t *Table) Fleet(capability string) *Fleet { return t.fleets[capability] }

// Fleets returns all fleets in the order of the configuration; the slice is immutable.
func (t *Table) Fleets() []*Fleet { return t.ordered }

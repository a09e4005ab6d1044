package router

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// Config is what a table is made of.
type Config struct {
	Domains []string // weather.<domain> as :authority names the capability weather
	Zone    string   // the gateway's own: calls stay in it while it can take them; default no preference
	Fleets  []FleetConfig

	// Clock must not go back; default time.Now. A table keeps that of the one before it.
	Clock func() time.Time
	// Limits is what limited fleets need, and all tables of a Router have in common.
	Limits *Limits
	// Ejected, if set, is told of ejections. It runs on the path of a call and must
	// not block.
	Ejected func(b *Backend, why Class, lasts time.Duration)
}

// FleetConfig describes one fleet.
type FleetConfig struct {
	Capability string          // lower-case; unique
	Services   []string        // gRPC services whose calls come here when they name no capability; unique
	Methods    []string        // gRPC methods that it has beside those of Services, package.Service/Method or package.Service/*
	Backends   []BackendConfig // their addresses are unique within the fleet
	Dialect    call.Dialect    // what the backends speak; Auto: what health finds
	Secure     bool            // the backends are reached by TLS
	Deadlines  Deadlines
	Ejection   Ejection
	Retries    Retries
	Idempotent []string // tools that may be carried out twice for one call; "*": all
	Affinity   Affinity
	Limit      Limit
	SlowStart  time.Duration // in which a backend that comes back gets its whole share of calls; default 30 s; negative: none

	EventSource []string // tools that may be called by GET; "*": all
	Protocol    any      // settings of what the backends speak, which are compared deeply; nil: Selu's dialects
	Keyed       bool     // idempotency-key of calls by gRPC is for the gateway, and not for the backends
}

// BackendConfig is one backend of a fleet.
type BackendConfig struct {
	Addr    string       // host:port
	Weight  int          // share of calls, against the other backends'; default 100; negative: no new calls
	Zone    string       // where it is; default nowhere
	Session string       // it serves this session, which goes nowhere else, and no other; default any
	Tenant  string       // whose session that is
	Host    string       // what its certificate must be for, where the fleet names nothing; default the host of Addr
	Dialect call.Dialect // what it speaks; Auto: what the fleet says
	Limit   int          // calls at once, of all replicas; default the fleet's Limit.PerBackend; negative: no limit
}

// Addrs are backends of which nothing but host:port is said.
func Addrs(addrs ...string) []BackendConfig {
	backends := make([]BackendConfig, len(addrs))
	for i, addr := range addrs {
		backends[i].Addr = addr
	}
	return backends
}

// Table is everything that the configuration says about where calls go. It is
// immutable; only health changes beneath it.
type Table struct {
	fleets    map[string]*Fleet // by capability
	index     index             // the same for calls
	services  map[string]*Fleet // by gRPC service
	domains   []string          // lower-case
	ordered   []*Fleet          // as configured
	nextID    int               // larger than every ID given out so far
	zone      string
	clock     *clock
	tell      func(*Backend, Class, time.Duration) // of ejections
	limits    *Limits
	later     bool          // calls came before it was there
	ambiguous *call.Refusal // what calls get that name no capability
}

// NewTable makes a table. Fleets of which cfg says the same as it did when prev, which
// may be nil, was made are the same, so that one new backend among 10,000 fleets costs
// one new fleet. Backends that prev has with the same capability, address, session and dialect,
// reached in the same way, are the same too: they keep in-flight count and what is
// known of them. The others are unknown until health speaks of them. The table keeps what
// cfg points to.
func NewTable(cfg Config, prev *Table) (*Table, error) {
	t := &Table{
		fleets:   make(map[string]*Fleet, len(cfg.Fleets)),
		services: make(map[string]*Fleet),
		ordered:  make([]*Fleet, 0, len(cfg.Fleets)),
		zone:     cfg.Zone,
		tell:     cfg.Ejected,
		limits:   cfg.Limits,
		later:    prev != nil,
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
	t.ambiguous = keyMissing(t.domains)
	return t, nil
}

// add puts a fleet into the table: prev's if it is to be the same, else a new one.
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

// newFleet makes a fleet with the backends of the one before it, as far as they stay.
func (t *Table) newFleet(cfg *FleetConfig, before *Fleet) (*Fleet, error) {
	// The copies of the names lie together, too.
	f := &Fleet{Capability: strings.Clone(cfg.Capability), about: &about{
		Deadlines: cfg.Deadlines.withDefaults(), cfg: *cfg,
		ejection: cfg.Ejection.withDefaults(), retries: cfg.Retries.withDefaults(), slowStart: cfg.SlowStart,
		idempotent: newDeclared(cfg.Idempotent), eventSource: newDeclared(cfg.EventSource), limit: cfg.Limit.withDefaults(),
	}}
	if f.slowStart == 0 {
		f.slowStart = 30 * time.Second
	}
	f.clock = t.clock
	if before != nil {
		f.standing = before.standing
	} else {
		f.standing = &standing{clock: t.clock, tell: t.tell}
		f.standing.fleet.Store(f)
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
			b = newBackend(t.nextID, cfg, c, f.standing, &loads[i])
			b.turnout.out = before != nil // one that joins starts slowly
			if t.later && c.Dialect == call.Auto {
				b.stranger.Store(&stranger{})
			}
			t.nextID++
		}
		f.Backends = append(f.Backends, b)
		f.members = append(f.members, member{
			Backend: b, weight: weight(c.Weight), near: t.zone != "" && c.Zone == t.zone, limit: cfg.Limit.of(&c),
		})
	}
	f.stick(cfg.Affinity)
	if len(stay) == 0 {
		f.loads = loads
	}
	known := health.NewSnapshot(f.Capability, nil)
	f.standing.mu.Lock()
	defer f.standing.mu.Unlock()
	if before != nil {
		known = before.health
	}
	f.setHealth(known)
	if err := f.bound(t.limits); err != nil {
		return nil, err
	}
	if before == nil && f.limiter != nil {
		f.limiter.configure(f)
	}
	return f, nil
}

// backendsFor are the fleet's backends that may be the same with another
// configuration, by their addresses. The fleet may be nil.
func (f *Fleet) backendsFor(cfg *FleetConfig) map[string]*Backend {
	if f == nil || f.cfg.Secure != cfg.Secure {
		return nil
	}
	same := make(map[string]*Backend, len(f.Backends))
	for _, b := range f.Backends {
		same[b.Addr] = b
	}
	return same
}

func weight(configured int) int {
	if configured == 0 {
		return 100
	}
	return max(configured, 0)
}

// Fleet returns the fleet of a capability, nil if there is none.
func (t *Table) Fleet(capability string) *Fleet { return t.fleets[capability] }

// Fleets returns all fleets in the order of the configuration; not to be changed.
func (t *Table) Fleets() []*Fleet { return t.ordered }

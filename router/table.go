package router

import (
	"fmt"
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
	// Ejected, if set, is told of ejections. It runs on the path of a call and must
	// not block.
	Ejected func(b *Backend, why Class, lasts time.Duration)
}

// FleetConfig describes one fleet.
type FleetConfig struct {
	Capability string          // lower-case; unique
	Services   []string        // gRPC services whose calls come here when they name no capability; unique
	Backends   []BackendConfig // their addresses are unique within the fleet
	Dialect    call.Dialect    // what the backends speak; Auto: what health finds
	Deadlines  Deadlines
	Ejection   Ejection
	Retries    Retries
	SlowStart  time.Duration // in which a backend that comes back gets its whole share of calls; default 30 s; negative: none
}

// BackendConfig is one backend of a fleet.
type BackendConfig struct {
	Addr   string // host:port
	Weight int    // share of calls, against the other backends'; default 100; negative: no new calls
	Zone   string // where it is; default nowhere
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
	services  map[string]*Fleet // by gRPC service
	domains   []string          // lower-case
	ordered   []*Fleet          // as configured
	backends  []*Backend
	nextID    int // larger than every ID given out so far
	zone      string
	clock     *clock
	tell      func(*Backend, Class, time.Duration) // of ejections
	ambiguous *call.Refusal                        // what calls get that name no capability
}

// NewTable makes a table. Backends that prev, which may be nil, has with the same
// capability, address and dialect are the same: they keep ID, in-flight count and
// what is known of them. The others are unknown until health speaks of them.
func NewTable(cfg Config, prev *Table) (*Table, error) {
	t := &Table{
		fleets:   make(map[string]*Fleet, len(cfg.Fleets)),
		services: make(map[string]*Fleet),
		zone:     cfg.Zone,
		tell:     cfg.Ejected,
	}
	old := map[backendKey]*Backend{}
	if prev == nil {
		t.clock = newClock(cfg.Clock)
	} else {
		t.nextID, t.clock = prev.nextID, prev.clock
		for _, b := range prev.backends {
			old[b.key()] = b
		}
	}
	for _, d := range cfg.Domains {
		t.domains = append(t.domains, strings.ToLower(d))
	}
	for i := range cfg.Fleets {
		if err := t.add(&cfg.Fleets[i], prev, old); err != nil {
			return nil, fmt.Errorf("routing table: %w", err)
		}
	}
	t.ambiguous = keyMissing(t.domains)
	return t, nil
}

// backendKey is what makes a backend the same over changes of the configuration.
type backendKey struct {
	capability, addr string
	dialect          call.Dialect // as configured
}

func (b *Backend) key() backendKey { return backendKey{b.Capability, b.Addr, b.configured} }

func (t *Table) add(cfg *FleetConfig, prev *Table, old map[backendKey]*Backend) error {
	if t.fleets[cfg.Capability] != nil {
		return fmt.Errorf("capability %s has two fleets", cfg.Capability)
	}
	f := &Fleet{
		Capability: cfg.Capability, Deadlines: cfg.Deadlines.withDefaults(),
		ejection: cfg.Ejection.withDefaults(), retries: cfg.Retries.withDefaults(), slowStart: cfg.SlowStart,
	}
	if f.slowStart == 0 {
		f.slowStart = 30 * time.Second
	}
	var before *Fleet
	if prev != nil {
		before = prev.fleets[cfg.Capability]
	}
	f.clock = t.clock
	if before != nil {
		f.standing = before.standing
	} else {
		f.standing = &standing{clock: t.clock, tell: t.tell}
		f.standing.fleet.Store(f)
	}
	seen := make(map[string]bool, len(cfg.Backends))
	loads := make([]load, len(cfg.Backends))
	for i, c := range cfg.Backends {
		if seen[c.Addr] {
			return fmt.Errorf("fleet %s names backend %s twice", cfg.Capability, c.Addr)
		}
		seen[c.Addr] = true
		b := old[backendKey{cfg.Capability, c.Addr, cfg.Dialect}]
		if b == nil {
			b = newBackend(t.nextID, cfg.Capability, c.Addr, cfg.Dialect, f.standing, &loads[i])
			b.turnout.out = before != nil // one that joins starts slowly
			t.nextID++
		}
		f.Backends = append(f.Backends, b)
		f.members = append(f.members, member{Backend: b, weight: weight(c.Weight), near: t.zone != "" && c.Zone == t.zone})
	}
	t.backends = append(t.backends, f.Backends...)
	for _, s := range cfg.Services {
		if other := t.services[s]; other != nil {
			return fmt.Errorf("service %s belongs to two fleets, %s and %s", s, other.Capability, f.Capability)
		}
		t.services[s] = f
	}
	t.fleets[f.Capability] = f
	t.ordered = append(t.ordered, f)
	known := health.NewSnapshot(f.Capability, nil)
	f.standing.mu.Lock()
	defer f.standing.mu.Unlock()
	if before != nil {
		known = before.health
	}
	f.setHealth(known)
	return nil
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

// Backends returns all backends of the table; not to be changed.
func (t *Table) Backends() []*Backend { return t.backends }

package health

import (
	"crypto/tls"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Config says how the backends of one fleet are probed. The zero value works.
type Config struct {
	Interval time.Duration // from the end of one probe to the start of the next; a quarter of it while a failure is to be confirmed; default 5 s
	Timeout  time.Duration // of one probe, connecting included; default 1 s
	Jitter   float64       // share of Interval by which each wait is varied, 0 to 1; default 0.1
	Rise     int           // consecutive good probes that bring a backend back; default 2
	Fall     int           // consecutive bad probes that take it out; default 2
}

func (c Config) withDefaults() Config {
	if c.Interval <= 0 {
		c.Interval = 5 * time.Second
	}
	if c.Timeout <= 0 {
		c.Timeout = time.Second
	}
	if c.Jitter <= 0 || c.Jitter > 1 {
		c.Jitter = 0.1
	}
	if c.Rise <= 0 {
		c.Rise = 2
	}
	if c.Fall <= 0 {
		c.Fall = 2
	}
	return c
}

// Fleet is a set of backends to probe.
type Fleet struct {
	Capability string
	Backends   []string     // host:port, unique; not to be changed afterwards
	Dialect    call.Dialect // Auto: find out; else only this dialect's Healthcheck is tried
	TLS        *tls.Config  // nil: cleartext; one that does not change is the same pointer
	Config     Config
}

// same says whether next, which has no defaults filled in, differs from f in nothing.
func (f *Fleet) same(next *Fleet) bool {
	return f.Dialect == next.Dialect && f.TLS == next.TLS && f.Config == next.Config.withDefaults() &&
		slices.Equal(f.Backends, next.Backends)
}

// fleet is a Fleet that is watched.
type fleet struct {
	spec    *Fleet // never changed; probes under way read it
	targets []*target
	snap    *Snapshot
	next    []Backend // of the snapshot to come; nil: nothing changed
	news    []News    // how next differs from snap
	round   uint64    // of the Set that named it last
}

// target is one backend of a fleet.
type target struct {
	fleet *fleet
	index int    // in the fleet's order
	probe *Probe // nil: not probed here
}

func (t *target) addr() string { return t.fleet.spec.Backends[t.index] }

// backend returns what is known of t; not to be changed.
func (t *target) backend() *Backend {
	if t.fleet.next != nil {
		return &t.fleet.next[t.index]
	}
	return &t.fleet.snap.Backends[t.index]
}

// Set makes fleets all that is watched from now on. A backend that was there
// before, with the same capability, address and dialect, keeps its state; if TLS
// is the same too, its connection and the time of its next probe. Fleets that
// differ in nothing cost a comparison. It returns the capabilities that are gone.
func (r *Replica) Set(now time.Time, fleets []Fleet) (gone []string) {
	r.round++
	for i := range fleets {
		f := r.fleets[fleets[i].Capability]
		if f == nil || !f.spec.same(&fleets[i]) {
			spec := fleets[i]
			spec.Config = spec.Config.withDefaults()
			f = r.replace(now, f, &spec)
		}
		f.round = r.round
	}
	for name, f := range r.fleets {
		if f.round != r.round {
			r.replace(now, f, nil)
			gone = append(gone, name)
		}
	}
	r.publish()
	return gone
}

// replace puts spec in old's place; either may be nil.
func (r *Replica) replace(now time.Time, old *fleet, spec *Fleet) *fleet {
	before := map[string]*target{}
	if old != nil {
		old.publish(r)
		delete(r.fleets, old.spec.Capability)
		for _, t := range old.targets {
			before[t.addr()] = t
		}
	}
	var f *fleet
	if spec != nil {
		f = r.adopt(now, old, before, spec)
		r.fleets[spec.Capability] = f
	}
	for _, t := range before {
		r.giveUp(t)
	}
	return f
}

// adopt makes the fleet of spec. It takes those backends out of before that stay as
// they are.
func (r *Replica) adopt(now time.Time, old *fleet, before map[string]*target, spec *Fleet) *fleet {
	f := &fleet{spec: spec, targets: make([]*target, len(spec.Backends))}
	backends := make([]Backend, len(spec.Backends))
	for i, addr := range spec.Backends {
		f.targets[i] = &target{fleet: f, index: i}
		backends[i] = Backend{Addr: addr, Dialect: spec.Dialect}
		if t := before[addr]; t != nil && old.spec.Dialect == spec.Dialect {
			delete(before, addr)
			backends[i] = old.snap.Backends[t.index]
			r.move(t, f.targets[i])
		}
	}
	f.snap = NewSnapshot(spec.Capability, backends)
	r.changes = append(r.changes, Change{Snapshot: f.snap, New: old == nil})
	for _, t := range f.targets {
		r.assign(now, t)
	}
	return f
}

// move lets next, the same backend in a new fleet, go on with what is known of t.
func (r *Replica) move(t, next *target) {
	if t.probe == nil {
		return
	}
	if t.fleet.spec.TLS != next.fleet.spec.TLS {
		r.giveUp(t)
		return
	}
	next.probe, t.probe = t.probe, nil
	next.probe.target = next
	next.probe.judge.rise, next.probe.judge.fall = next.fleet.spec.Config.Rise, next.fleet.spec.Config.Fall
}

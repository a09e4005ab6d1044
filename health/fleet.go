package health

import (
	"crypto/tls"
	"maps"
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
	Asks       Question     // what they are asked; default Healthcheck
	Dialect    call.Dialect // of Healthcheck; Auto: find out; else only this dialect's is tried
	TLS        *tls.Config  // nil: cleartext; one that does not change is the same pointer
	// Hosts are what backends' certificates must be for, by address, where TLS has no
	// ServerName; default the host of the address. Not to be changed afterwards.
	Hosts  map[string]string
	Config Config
}

// same says whether next, which has no defaults filled in, differs from f in nothing.
func (f *Fleet) same(next *Fleet) bool {
	return f.Asks == next.Asks && f.Dialect == next.Dialect && f.TLS == next.TLS && f.Config == next.Config.withDefaults() &&
		slices.Equal(f.Backends, next.Backends) && maps.Equal(f.Hosts, next.Hosts)
}

// fleet is a Fleet that is watched.
type fleet struct {
	spec    *Fleet // never changed; probes under way read it
	page    int    // of the board
	targets []*target
	index   map[string]*target // by address; nil: few enough to look through
	snap    *Snapshot
	next    []Backend // of the snapshot to come; nil: nothing changed
	news    []News    // how next differs from snap
	round   uint64    // of the Set that named it last
}

// target is one backend of a fleet.
type target struct {
	fleet    *fleet
	probe    *Probe   // nil: not probed here
	hash     uint64   // of capability and address
	votes    [2]*Vote // by Slot; nil: none is known
	first    *peer    // who probes it
	second   *peer    // who confirms that it is down; nil: nobody else is there
	index    int32    // in the fleet's order
	dirty    [2]bool  // votes to be posted
	posted   [2]bool  // votes that the board has, as far as is known
	disputed bool     // the board says something else than what was found out here
	looked   bool     // its page was read
	orphan   bool     // probed here since nobody could say whose turn it is
}

func (t *target) addr() string { return t.fleet.spec.Backends[t.index] }

func (t *target) key(s Slot) Key {
	return Key{Capability: t.fleet.spec.Capability, Addr: t.addr(), Slot: s}
}

// backend returns what is known of t; not to be changed.
func (t *target) backend() *Backend {
	if t.fleet.next != nil {
		return &t.fleet.next[t.index]
	}
	return &t.fleet.snap.Backends[t.index]
}

// find returns the target of a key, nil if there is none.
func (r *Replica) find(k Key) *target {
	f := r.fleets[k.Capability]
	if f == nil {
		return nil
	}
	if f.index != nil {
		return f.index[k.Addr]
	}
	if i := slices.Index(f.spec.Backends, k.Addr); i >= 0 {
		return f.targets[i]
	}
	return nil
}

// Set makes fleets all that is watched from now on. A backend that was there
// before, with the same capability, address, question and dialect, keeps its state; if TLS
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
	var before map[string]*target
	if old != nil {
		old.publish(r)
		delete(r.fleets, old.spec.Capability)
		delete(r.pages[old.page].fleets, old)
		before = make(map[string]*target, len(old.targets))
		for _, t := range old.targets {
			before[t.addr()] = t
		}
	}
	var f *fleet
	if spec != nil {
		f = r.adopt(now, old, before, spec)
	}
	for _, t := range before {
		r.release(t)
	}
	return f
}

// indexed is the least number of backends of a fleet that has an index.
const indexed = 32

// adopt makes the fleet of spec. It takes those backends out of before that stay as
// they are.
func (r *Replica) adopt(now time.Time, old *fleet, before map[string]*target, spec *Fleet) *fleet {
	f := &fleet{spec: spec, page: PageOf(spec.Capability), targets: make([]*target, len(spec.Backends))}
	backends := make([]Backend, len(spec.Backends))
	added := false
	if len(spec.Backends) >= indexed {
		f.index = make(map[string]*target, len(spec.Backends))
	}
	var block []target // of a new fleet's, which mostly come and go together
	if old == nil {
		block = make([]target, len(spec.Backends))
	}
	for i, addr := range spec.Backends {
		t := before[addr]
		if t != nil && old.spec.Dialect == spec.Dialect && old.spec.Asks == spec.Asks {
			delete(before, addr)
			backends[i] = old.snap.Backends[t.index]
			r.move(t, spec)
		} else {
			backends[i] = Backend{Addr: addr, Dialect: spec.Dialect}
			if old != nil {
				t = new(target)
			} else {
				t = &block[i]
			}
			added = true
			r.welcome(t, spec.Capability, addr)
		}
		t.fleet, t.index, f.targets[i] = f, int32(i), t
		if f.index != nil {
			f.index[addr] = t
		}
	}
	f.snap = NewSnapshot(spec.Capability, backends)
	r.changes = append(r.changes, Change{Snapshot: f.snap, New: old == nil})
	r.fleets[spec.Capability] = f
	for _, t := range f.targets {
		r.assign(now, t)
	}
	if r.options.Shared {
		r.open(f, added)
	}
	return f
}

// open makes the board be asked about a fleet, again if it has new members.
func (r *Replica) open(f *fleet, added bool) {
	p := &r.pages[f.page]
	if p.fleets == nil {
		p.fleets = map[*fleet]struct{}{}
	}
	p.fleets[f] = struct{}{}
	if added && r.read {
		r.mistrust(f.page)
	}
}

// welcome begins to watch a target, of which nothing is known.
func (r *Replica) welcome(t *target, capability, addr string) {
	t.hash = hash(capability + " " + addr)
	for _, p := range r.alive {
		t.meets(p)
	}
	t.first.count(t.contribution())
}

// move lets t go on as a backend of a fleet that is now as next says.
func (r *Replica) move(t *target, next *Fleet) {
	if t.probe == nil {
		return
	}
	if t.fleet.spec.TLS != next.TLS || t.fleet.spec.Hosts[t.probe.addr] != next.Hosts[t.probe.addr] {
		r.giveUp(t)
		return
	}
	if t.probe.place >= 0 { // else Probed does it
		t.probe.follow(next)
	}
}

// release lets go of a target that is in no fleet any more. Who probed it takes it
// off the board.
func (r *Replica) release(t *target) {
	if r.options.Shared && t.first == r.self {
		r.forget(t.key(First))
		r.forget(t.key(Second))
	}
	t.first.uncount(t.contribution())
	t.first, t.second = nil, nil
	r.giveUp(t)
}

package health

import (
	"cmp"
	"crypto/tls"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Config says how the backends of one fleet are probed. A zero number or duration takes its default. Its fields
// with tags are a part of the configuration file.
type Config struct {
	// Time from the end of one probe to the start of the next; a quarter of that after the first failures of a backend
	// that was up.
	Interval time.Duration `yaml:"interval" min:"10ms" default:"5s"`
	// Timeout of one probe, including the connection; at most interval.
	Timeout time.Duration `yaml:"timeout" above:"0" default:"1s"`
	// Jitter is the fraction of Interval by which each wait varies; default 0.1.
	Jitter float64 `yaml:"-"`
	// Consecutive good probes that bring a backend back; one is enough while no other backend of the fleet is up.
	Rise int `yaml:"rise" min:"1" max:"100" default:"2"`
	// Consecutive bad probes that take it out.
	Fall int `yaml:"fall" min:"1" max:"100" default:"2"`
	// Longest wait of a call while no backend of the fleet is known to be good. The call triggers a probe, and goes on
	// with the first good one. 0: no wait.
	WaitForReady time.Duration `yaml:"wait_for_ready" min:"0s" max:"30s" default:"1s"`
	// Probe of the backends, with protocol: openparallax: status is ClientService/GetStatus, the default; shield is
	// ShieldService/Health.
	Probe string `yaml:"probe" kind:"probe"`
}

// Check compares the timeout with the interval.
func (c *Config) Check(at strictyaml.At) {
	if !at.Has("timeout") {
		c.Timeout = min(c.Timeout, c.Interval)
	}
	if c.Timeout > c.Interval {
		at.Fail("timeout", "%s is more than interval, which is %s", c.Timeout, c.Interval)
	}
}

// defaults returns the defaults of a Config.
var defaults = sync.OnceValue(strictyaml.Defaults[Config])

func (c Config) withDefaults() Config {
	of := defaults()
	c.Interval, c.Timeout = cmp.Or(c.Interval, of.Interval), cmp.Or(c.Timeout, of.Timeout)
	c.Rise, c.Fall = cmp.Or(c.Rise, of.Rise), cmp.Or(c.Fall, of.Fall)
	if c.Jitter <= 0 || c.Jitter > 1 {
		c.Jitter = 0.1
	}
	return c
}

// Fleet is a set of backends to probe.
type Fleet struct {
	Capability string
	Backends   []string     // host:port, unique; immutable afterwards
	Asks       Question     // the kind of probe; nil: Healthcheck, else grpc.health.v1
	Dialect    call.Dialect // of Healthcheck; Auto: detected, else the only one that is tried
	Services   []string     // gRPC services that a backend may have instead of a capability's; immutable afterwards
	TLS        *tls.Config  // nil: cleartext; an unchanged configuration is the same pointer
	// Hosts are the names in the backends' certificates, by address, where TLS has no
	// ServerName; default the host of the address. The map is immutable afterwards.
	Hosts  map[string]string
	Config Config
}

// same reports whether next, which has no defaults filled in, equals f.
func (f *Fleet) same(next *Fleet) bool {
	return f.Asks == next.Asks && f.Dialect == next.Dialect && f.TLS == next.TLS &&
		slices.Equal(f.Services, next.Services) &&
		f.Config == next.Config.withDefaults() &&
		slices.Equal(f.Backends, next.Backends) && maps.Equal(f.Hosts, next.Hosts)
}

// fleet is a Fleet that is being probed.
type fleet struct {
	spec        *Fleet // immutable; probes in flight read it
	shard       int    // of the store
	endpoints   []*endpoint
	index       map[string]*endpoint // by address; nil: small enough for a linear search
	snap        *Snapshot
	next        []Backend    // of the next snapshot; nil: no change
	transitions []Transition // the differences between next and snap
	round       uint64       // number of the last Set that listed it

	wantedUntil time.Time // calls wait for a backend, at most until then
	nextWanted  int       // index of the first endpoint to expedite next time
}

// endpoint is one backend of a fleet.
type endpoint struct {
	fleet        *fleet
	probe        *Probe          // nil: not probed here
	hash         uint64          // of capability and address
	observations [2]*Observation // by Role; nil: unknown
	primary      *peer           // the replica that probes it
	secondary    *peer           // the replica that confirms Down; nil: there is no other replica
	index        int32           // in the fleet's order
	unpublished  [2]bool         // observations to publish
	published    [2]bool         // observations that the store holds, as far as is known
	waits        [2]bool         // published observations whose notices have waited, and have not arrived
	conflict     bool            // the store contradicts what was observed here
	shardRead    bool            // its shard was read
	orphan       bool            // probed here because its owner is unknown
	wanted       bool            // probed on demand, unless in another role
	reached      *Observation    // Up, as found on demand; nil: it was not
	nextReason   time.Time       // earliest time of another reason for the same state
}

// addr returns the backend's address.
func (ep *endpoint) addr() string { return ep.fleet.spec.Backends[ep.index] }

// key returns the key of the observation in role s.
func (ep *endpoint) key(s Role) Key {
	return Key{Capability: ep.fleet.spec.Capability, Addr: ep.addr(), Role: s}
}

// backend returns the current state of ep, which the caller must not change.
func (ep *endpoint) backend() *Backend {
	if ep.fleet.next != nil {
		return &ep.fleet.next[ep.index]
	}
	return &ep.fleet.snap.Backends[ep.index]
}

// find returns the endpoint of a key, or nil.
func (r *Replica) find(k Key) *endpoint {
	f := r.fleets[k.Capability]
	if f == nil {
		return nil
	}
	if f.index != nil {
		return f.index[k.Addr]
	}
	if i := slices.Index(f.spec.Backends, k.Addr); i >= 0 {
		return f.endpoints[i]
	}
	return nil
}

// Set replaces the fleets that are probed. A backend that stays with the same capability,
// address, probe and dialect keeps its state. If its TLS is the same too, it keeps its connection
// and the time of its next probe. An unchanged fleet costs one comparison. Set returns the
// capabilities that were removed.
func (r *Replica) Set(now time.Time, fleets []Fleet) (gone []string) {
	r.round++
	for i := range fleets {
		f := r.fleets[fleets[i].Capability]
		if f == nil || !f.spec.same(&fleets[i]) {
			spec := fleets[i]
			spec.Config = spec.Config.withDefaults()
			old := f
			f = r.replace(now, old, &spec)
			if old != nil && now.Before(old.wantedUntil) {
				r.Expedite(now, spec.Capability)
			}
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

// replace puts spec in the place of old; either may be nil.
func (r *Replica) replace(now time.Time, old *fleet, spec *Fleet) *fleet {
	var before map[string]*endpoint
	if old != nil {
		old.publish(r)
		delete(r.fleets, old.spec.Capability)
		delete(r.shards[old.shard].fleets, old)
		before = make(map[string]*endpoint, len(old.endpoints))
		for _, ep := range old.endpoints {
			before[ep.addr()] = ep
		}
	}
	var f *fleet
	if spec != nil {
		f = r.build(now, old, before, spec)
	}
	for _, ep := range before {
		r.release(ep)
	}
	return f
}

// indexed is the least number of backends for which a fleet has an index.
const indexed = 32

// build makes the fleet of spec. It moves the backends that stay unchanged out of before.
func (r *Replica) build(now time.Time, old *fleet, before map[string]*endpoint, spec *Fleet) *fleet {
	f := &fleet{spec: spec, shard: ShardOf(spec.Capability), endpoints: make([]*endpoint, len(spec.Backends))}
	backends := make([]Backend, len(spec.Backends))
	added := false
	if len(spec.Backends) >= indexed {
		f.index = make(map[string]*endpoint, len(spec.Backends))
	}
	var block []endpoint // the endpoints of a new fleet, which mostly share one lifetime
	if old == nil {
		block = make([]endpoint, len(spec.Backends))
	}
	for i, addr := range spec.Backends {
		ep := before[addr]
		if ep != nil && old.spec.Dialect == spec.Dialect && old.spec.Asks == spec.Asks &&
			slices.Equal(old.spec.Services, spec.Services) {
			delete(before, addr)
			backends[i] = old.snap.Backends[ep.index]
			r.retain(ep, spec)
		} else {
			backends[i] = Backend{Addr: addr, Dialect: spec.Dialect}
			if old != nil {
				ep = new(endpoint)
			} else {
				ep = &block[i]
			}
			added = true
			r.track(ep, spec.Capability, addr)
		}
		ep.fleet, ep.index, f.endpoints[i] = f, int32(i), ep
		if f.index != nil {
			f.index[addr] = ep
		}
	}
	f.snap = NewSnapshot(spec.Capability, backends)
	r.changes = append(r.changes, Change{Snapshot: f.snap, New: old == nil})
	r.fleets[spec.Capability] = f
	for _, ep := range f.endpoints {
		r.assign(now, ep)
	}
	if r.options.Shared {
		r.subscribe(f, added)
	}
	return f
}

// subscribe subscribes a fleet to its shard, which is read again if the fleet has new backends.
func (r *Replica) subscribe(f *fleet, added bool) {
	p := &r.shards[f.shard]
	if p.fleets == nil {
		p.fleets = map[*fleet]struct{}{}
	}
	p.fleets[f] = struct{}{}
	if added && r.synced {
		r.invalidate(f.shard)
	}
}

// track adds a new endpoint, whose state is unknown.
func (r *Replica) track(ep *endpoint, capability, addr string) {
	ep.hash = hash(capability + " " + addr)
	for _, p := range r.live {
		ep.consider(p)
	}
	ep.primary.count(ep.contribution())
}

// retain keeps ep as a backend of the fleet's next version.
func (r *Replica) retain(ep *endpoint, next *Fleet) {
	if ep.probe == nil {
		return
	}
	if ep.fleet.spec.TLS != next.TLS || ep.fleet.spec.Hosts[ep.probe.addr] != next.Hosts[ep.probe.addr] {
		r.unschedule(ep)
		return
	}
	if ep.probe.heapIndex >= 0 { // else OnProbe does it
		ep.probe.configure(next)
	}
}

// release removes an endpoint that is in no fleet. Its primary deletes it from the store.
func (r *Replica) release(ep *endpoint) {
	if r.options.Shared && ep.primary == r.self {
		r.enqueueDeletion(ep.key(Primary))
		r.enqueueDeletion(ep.key(Secondary))
	}
	ep.primary.uncount(ep.contribution())
	ep.primary, ep.secondary = nil, nil
	r.unschedule(ep)
}

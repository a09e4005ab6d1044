package gateway

import (
	"crypto/tls"
	"sync"

	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/router"
)

// directory keeps the connections to the backends of the router's table, and the
// counters of its fleets. A call finds them with the backend and the fleet that it has
// (Attached), so a table that is put in force meanwhile does not concern it.
type directory struct {
	relay   *relay.Relay
	router  *router.Router
	metrics *telemetry.Metrics
	local   LocalOf

	mu    sync.Mutex // held to change what follows, and to count; not by calls
	table *router.Table
	links map[way]*link
	ways  map[*relay.Upstream]way // of the links
	tls   map[string]*tls.Config  // by capability; of those reached by TLS
}

// way is how a backend is reached: fleets that share a backend share its connections,
// unless they go by TLS, where each may show and ask something else, or are answered in the process.
type way struct {
	addr, fleet, host string
	local             string // the protocol that is answered in the process; empty means it is gRPC
}

// link is the connections to one backend.
type link struct {
	upstream *relay.Upstream
	users    int // backends of the table in force
}

// TLSOf says how a capability's backends are reached; nil is cleartext. It answers with
// the same pointer as long as nothing has changed.
type TLSOf func(capability string) *tls.Config

// LocalOf returns what answers the streams of a fleet's backend, see relay.UpstreamConfig; nil means they are sent
// there over gRPC.
type LocalOf func(f *router.Fleet, addr string) func(*relay.ServerStream) relay.Status

func newDirectory(r *relay.Relay, routing *router.Router, m *telemetry.Metrics, secure TLSOf,
	local LocalOf) *directory {
	d := &directory{relay: r, router: routing, metrics: m, local: local, table: routing.Table(), links: map[way]*link{},
		ways: map[*relay.Upstream]way{}, tls: map[string]*tls.Config{}}
	for _, f := range d.table.Fleets() {
		d.attach(f, secure(f.Capability))
	}
	return d
}

// swap puts next in force, which was made with the table in force as the one before it.
// Backends that next does not have are closed gracefully: calls in flight, and calls that still use the old table,
// finish before the connections close.
func (d *directory) swap(next *router.Table, secure TLSOf) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.table
	for _, f := range next.Fleets() {
		t := secure(f.Capability)
		rotated := t != d.tls[f.Capability]
		if before.Fleet(f.Capability) != f {
			d.attach(f, t)
		}
		if rotated && t != nil {
			d.secure(f, t)
		}
	}
	d.router.Swap(next)
	d.table = next
	for _, f := range before.Fleets() {
		switch next.Fleet(f.Capability) {
		case f:
			continue
		case nil:
			d.metrics.Forget(f.Capability)
			delete(d.tls, f.Capability)
		}
		for _, b := range f.Backends {
			d.leave(b)
		}
	}
}

// attach gives a new fleet's backends their connections.
func (d *directory) attach(f *router.Fleet, t *tls.Config) {
	m := d.metrics.Capability(f.Capability)
	f.Attached = m
	if t == nil {
		delete(d.tls, f.Capability)
	} else {
		d.tls[f.Capability] = t
	}
	for _, b := range f.Backends {
		if _, l := d.linkOf(b); l != nil {
			l.users++ // the fleet before it has the backend too
			continue
		}
		w, serve := way{addr: b.Addr}, d.local(f, b.Addr)
		if t != nil || serve != nil {
			w.fleet, w.host = f.Capability, b.Host
		}
		if serve != nil {
			w.local = f.Protocol().Traits().Name
		}
		l := d.links[w]
		if l == nil {
			l = &link{upstream: d.relay.NewUpstream(relay.UpstreamConfig{Addr: b.Addr, TLS: t, ServerName: b.Host,
				Serve: serve})}
			d.links[w], d.ways[l.upstream] = l, w
		}
		l.users++
		b.Attached = l.upstream
	}
}

// secure changes how a fleet's backends are reached, from the next connection on.
func (d *directory) secure(f *router.Fleet, t *tls.Config) {
	d.tls[f.Capability] = t
	for _, b := range f.Backends {
		forward.UpstreamOf(b).SetTLS(t)
	}
}

// leave gives up one use of a backend's connections.
func (d *directory) leave(b *router.Backend) {
	w, l := d.linkOf(b)
	if l.users--; l.users == 0 {
		delete(d.links, w)
		delete(d.ways, l.upstream)
		l.upstream.Close()
	}
}

// linkOf finds the link that a backend is attached to; nil if there is none.
func (d *directory) linkOf(b *router.Backend) (way, *link) {
	if b.Attached == nil {
		return way{}, nil
	}
	w := d.ways[forward.UpstreamOf(b)]
	return w, d.links[w]
}

// check finds out whether the connections to a backend of the table are alive.
func (d *directory) check(capability, addr string) {
	f := d.router.Table().Fleet(capability)
	if f == nil {
		return
	}
	for _, b := range f.Backends {
		if b.Addr == addr {
			forward.UpstreamOf(b).Check()
		}
	}
}

// conns returns the number of open connections to the backends of the table.
func (d *directory) conns() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, l := range d.links {
		n += l.upstream.Conns()
	}
	return n
}

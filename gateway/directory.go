package gateway

import (
	"crypto/tls"
	"sync"

	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/router"
)

// directory holds the connections to the backends of the router's table, and the counters of its fleets. A call finds
// them through its backend and fleet (Attached), so a change of the table does not affect it.
type directory struct {
	relay   *relay.Relay
	router  *router.Router
	metrics *telemetry.Metrics
	local   LocalOf

	mu    sync.Mutex // held to change the fields below, and to count; never by calls
	table *router.Table
	links map[way]*link
	ways  map[*relay.Upstream]way // by connection
	tls   map[string]*tls.Config  // by capability; only for fleets with TLS
}

// way identifies how a backend is reached. Fleets that share a backend share its connections, unless they use TLS,
// where each fleet may have its own settings, or a protocol that is served in the process.
type way struct {
	addr, fleet, host string
	local             string // protocol that is served in the process; empty means gRPC
}

// link is the set of connections to one backend.
type link struct {
	upstream *relay.Upstream
	users    int // number of references from the current table
}

// TLSOf returns the TLS settings of a capability's backends; nil means cleartext. It must return the same pointer as
// long as nothing has changed.
type TLSOf func(capability string) *tls.Config

// LocalOf returns the function that serves the streams to a backend, see relay.UpstreamConfig; nil means they are sent
// over gRPC.
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

// swap replaces the table with next, which must have been built from the current one. Connections to backends that
// next lacks are closed gracefully: calls in flight, and calls that still use the old table, finish first.
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

// attach connects a new fleet's backends.
func (d *directory) attach(f *router.Fleet, t *tls.Config) {
	m := d.metrics.Capability(f.Capability)
	f.Attached = m
	addresses := make([]string, len(f.Backends))
	for i, b := range f.Backends {
		addresses[i] = b.Addr
	}
	d.metrics.SetBackends(f.Capability, addresses)
	if t == nil {
		delete(d.tls, f.Capability)
	} else {
		d.tls[f.Capability] = t
	}
	for _, b := range f.Backends {
		if _, l := d.linkOf(b); l != nil {
			l.users++ // the previous fleet has the backend too
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

// secure changes the TLS settings of a fleet's backends for new connections.
func (d *directory) secure(f *router.Fleet, t *tls.Config) {
	d.tls[f.Capability] = t
	for _, b := range f.Backends {
		forward.UpstreamOf(b).SetTLS(t)
	}
}

// leave releases one use of a backend's connections.
func (d *directory) leave(b *router.Backend) {
	w, l := d.linkOf(b)
	if l.users--; l.users == 0 {
		delete(d.links, w)
		delete(d.ways, l.upstream)
		l.upstream.Close()
	}
}

// linkOf returns the link of a backend; nil if it has none.
func (d *directory) linkOf(b *router.Backend) (way, *link) {
	if b.Attached == nil {
		return way{}, nil
	}
	w := d.ways[forward.UpstreamOf(b)]
	return w, d.links[w]
}

// check verifies that the connections to a backend of the table are alive.
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

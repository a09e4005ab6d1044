package gateway

import (
	"crypto/tls"
	"iter"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/observe"
	"github.com/capgate/capgate/router"
)

// directory finds what the gateway keeps beside a router's table: a backend's
// connections and a fleet's counters. It is immutable.
type directory struct {
	backends  []*relay.Upstream // by router.Backend.ID
	upstreams []*relay.Upstream // each once
	fleets    map[*router.Fleet]*observe.CapabilityMetrics
	services  *relay.Upstream // the gateway's own gRPC services
}

// newDirectory makes one upstream per address and way to reach it: fleets that share a
// backend share its connections.
func newDirectory(r *relay.Relay, t *router.Table, m *observe.Metrics, secure func(capability string) *tls.Config) *directory {
	d := &directory{fleets: map[*router.Fleet]*observe.CapabilityMetrics{}}
	type way struct {
		addr   string
		secure *tls.Config
	}
	known := map[way]*relay.Upstream{}
	for _, f := range t.Fleets() {
		d.fleets[f] = m.Capability(f.Capability)
		for _, b := range f.Backends {
			for b.ID >= len(d.backends) {
				d.backends = append(d.backends, nil)
			}
			w := way{b.Addr, secure(f.Capability)}
			if known[w] == nil {
				known[w] = r.NewUpstream(relay.UpstreamConfig{Addr: w.addr, TLS: w.secure})
				d.upstreams = append(d.upstreams, known[w])
			}
			d.backends[b.ID] = known[w]
		}
	}
	return d
}

func (d *directory) of(b *router.Backend) *relay.Upstream { return d.backends[b.ID] }

func (d *directory) metrics(f *router.Fleet) *observe.CapabilityMetrics { return d.fleets[f] }

// conns is the number of open connections to backends.
func (d *directory) conns() int {
	n := 0
	for _, u := range d.upstreams {
		n += u.Conns()
	}
	return n
}

// fleetStats is what metrics tell of the fleets in force.
func fleetStats(r *router.Router) iter.Seq[observe.Fleet] {
	return func(yield func(observe.Fleet) bool) {
		for _, f := range r.Table().Fleets() {
			s := f.Stats()
			if !yield(observe.Fleet{
				Capability: f.Capability, Usable: s.Usable, Down: s.Down, Ejected: s.Ejected, Off: s.Off, Panic: s.Panic,
				Ejections: s.Ejections, Spared: s.Spared, Retries: s.Retries, RetriesDenied: s.RetriesDenied,
			}) {
				return
			}
		}
	}
}

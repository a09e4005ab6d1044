package main

import (
	"slices"
	"time"

	"github.com/capgate/capgate/router"
)

// oracle picks the backend with the shortest expected response time.
type oracle struct{ *simulation }

func (o oracle) pick() (int, func(time.Duration)) {
	best, least := 0, time.Duration(0)
	for i, b := range o.fleet {
		expected := b.mean + b.mean*time.Duration(max(0, b.inFlight+1-o.workers))/time.Duration(o.workers)
		if i == 0 || expected < least {
			best, least = i, expected
		}
	}
	return best, func(time.Duration) {}
}

// routed picks with the gateway's router.
type routed struct {
	fleet *router.Fleet
	index map[string]int
}

func newRouted(s *simulation) rule {
	names := []string{"a:1", "b:1", "c:1", "d:1", "e:1"}
	table, err := router.NewTable(router.Config{
		Fleets: []router.FleetConfig{{Capability: "simulated", Backends: router.Addrs(names...)}},
		Clock:  func() time.Time { return time.Unix(0, 0).Add(s.now) },
	}, nil)
	if err != nil {
		panic(err) // constants cannot fail
	}
	r := routed{fleet: router.New(table).Table().Fleet("simulated"), index: map[string]int{}}
	for i, name := range names {
		r.index[name] = i
	}
	return r
}

func (r routed) pick() (int, func(time.Duration)) {
	b, permit, refusal := r.fleet.Route(nil)
	if refusal != nil {
		panic(refusal.Message)
	}
	return r.index[b.Addr], func(took time.Duration) {
		permit.Done(router.Outcome{Class: router.Succeeded, Latency: took, Took: took})
	}
}

// Parameters of Prequal, from its paper.
const (
	probesPerCall = 3
	maxProbes     = 16
	hotQuantile   = 0.84
	probeAge      = time.Second
	probeTime     = 500 * time.Microsecond // round trip of a probe
)

// prequal picks from a pool of probe responses: the cold backend with the lowest latency, or, if all are hot, the one
// with the fewest calls in flight. A backend is hot if its calls in flight are above a quantile of the pool.
type prequal struct {
	*simulation
	pool []probe // oldest first
	seen []int   // calls in flight of recent probes
}

type probe struct {
	backend, inFlight int
	latency           time.Duration
	at                time.Duration
	uses              int
}

func newPrequal(s *simulation) rule {
	p := &prequal{simulation: s}
	for i := range s.fleet {
		p.probe(i)
	}
	return p
}

// probe adds a backend's state to the pool.
func (p *prequal) probe(i int) {
	b := p.fleet[i]
	p.pool = append(p.pool, probe{backend: i, inFlight: b.inFlight, latency: b.estimate(), at: p.now})
	p.pool = p.pool[max(0, len(p.pool)-maxProbes):]
	p.seen = append(p.seen, b.inFlight)
	p.seen = p.seen[max(0, len(p.seen)-4*maxProbes):]
}

// estimate returns the median latency of recent calls with about as many calls in flight.
func (b *server) estimate() time.Duration {
	const far = 64
	for d := range far {
		for _, n := range []int{b.inFlight - d, b.inFlight + d} {
			if all := b.recent[n]; len(all) > 0 {
				sorted := slices.Sorted(slices.Values(all))
				return sorted[len(sorted)/2]
			}
		}
	}
	return b.mean
}

func (p *prequal) pick() (int, func(time.Duration)) {
	for _, i := range p.random.Perm(backends)[:probesPerCall] {
		p.after(probeTime, func() { p.probe(i) })
	}
	p.pool = slices.DeleteFunc(p.pool, func(q probe) bool { return p.now-q.at > probeAge })
	if len(p.pool) < 2 {
		return p.random.IntN(backends), func(time.Duration) {}
	}
	seen := slices.Sorted(slices.Values(p.seen))
	hot := seen[int(hotQuantile*float64(len(seen)-1))]
	best := 0
	for i := range p.pool[1:] {
		if p.pool[i+1].better(p.pool[best], hot) {
			best = i + 1
		}
	}
	chosen := p.pool[best].backend
	p.pool[best].inFlight++ // the call that is being sent there
	if p.pool[best].uses++; p.pool[best].uses >= 2 {
		p.pool = slices.Delete(p.pool, best, best+1)
	}
	p.remove(hot)
	return chosen, func(time.Duration) {}
}

// remove alternately deletes the oldest and the worst probe. This keeps the pool fresh and free of the worst backends.
func (p *prequal) remove(hot int) {
	if len(p.pool) < 2 {
		return
	}
	worst := 0
	if p.random.IntN(2) == 0 {
		for i := range p.pool[1:] {
			if p.pool[worst].better(p.pool[i+1], hot) {
				worst = i + 1
			}
		}
	}
	p.pool = slices.Delete(p.pool, worst, worst+1)
}

// better reports whether one probe is preferable to another.
func (q probe) better(other probe, hot int) bool {
	if cold, otherCold := q.inFlight <= hot, other.inFlight <= hot; cold != otherCold {
		return cold
	} else if cold {
		return q.latency < other.latency
	}
	return q.inFlight < other.inFlight
}

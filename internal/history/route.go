package history

import (
	"sync"

	"github.com/capgate/capgate/internal/telemetry"
)

// route has the calls of one tenant of one tool at one backend, as far as they are not in their series yet. A series
// that the calls do not have is nil.
type route struct {
	fleet, tool, backend, tenant *counted // only their names are used

	since uint64 // Log.publications at its first call
	Point
}

// cell has the last routes of some shards, by a few bytes of their names. So a call of a known route takes a lock that
// few other shards use, and finds its series without the maps.
type cell struct {
	mu     sync.Mutex // held for the counting of one call
	routes [256]route
	_      [64]byte
}

// cellOf returns the cell of a shard.
func (l *Log) cellOf(shard uint32) *cell { return &l.cells[int(shard)&(len(l.cells)-1)] }

// collect adds the calls of all routes to their series.
func (l *Log) collect() {
	for i := range l.cells {
		c := &l.cells[i]
		c.mu.Lock()
		l.mu.Lock()
		for at := range c.routes {
			l.flush(&c.routes[at])
		}
		l.mu.Unlock()
		c.mu.Unlock()
	}
}

// flush adds the calls of a route to its series. l.mu must be held.
func (l *Log) flush(r *route) {
	if r.Empty() {
		return
	}
	for _, s := range [...]*counted{r.fleet, r.tool, r.backend, r.tenant} {
		if s == nil {
			continue
		}
		point, apart := l.pending.of(s.of)
		point.Add(&r.Point)
		if !apart {
			l.others[s.of.Kind] += r.Calls()
		}
	}
	r.Point = Point{}
}

// routeAt returns the place of the route of a call. It depends on a few bytes of the names alone.
func (c *cell) routeAt(tool string, rec *telemetry.Record) *route {
	at := uint(0)
	for _, name := range [...]string{tool, rec.Backend, rec.Call.Tenant} {
		at *= 7
		if n := len(name); n > 0 {
			at += uint(n) + uint(name[n-1])*3 + uint(name[n/2])
		}
	}
	return &c.routes[at%uint(len(c.routes))]
}

// is reports whether the route is that of calls with these names.
func (r *route) is(capability, tool string, rec *telemetry.Record) bool {
	switch {
	case r.fleet == nil || r.fleet.of.Group != capability:
		return false
	case r.tool == nil && tool != "" || r.tool != nil && r.tool.of.Name != tool:
		return false
	case r.backend == nil && rec.Backend != "" || r.backend != nil && r.backend.of.Name != rec.Backend:
		return false
	}
	return r.tenant != nil && r.tenant.of.isTenant(rec.Call.Tenant, rec.TenantUID)
}

// isTenant reports whether the series is TenantSeries(id, uid).
func (s *Series) isTenant(id, uid string) bool {
	if uid != "" {
		return s.Name == uid
	}
	return len(s.Name) > 0 && s.Name[0] == '=' && s.Name[1:] == id
}

// counting describes a call for its series.
type counting struct {
	result telemetry.Result
	bucket int    // of its duration; -1: it reached no backend
	reason string // of a refusal
}

func countingOf(rec *telemetry.Record) counting {
	c := counting{result: rec.Result(), bucket: -1, reason: rec.Reason}
	if rec.Backend != "" {
		c.bucket = bucketOf(rec.Took())
	}
	return c
}

package history

import "github.com/capgate/capgate/internal/telemetry"

// route has the series of calls of one tenant of one tool at one backend. A series that calls do not have is nil.
type route struct{ fleet, tool, backend, tenant *counted }

// routes has the last routes, by a few bytes of their names. Their series are found without the maps.
type routes [256]route

// routeAt returns the place of the route of a call. It depends on a few bytes of the names alone.
func (l *Log) routeAt(tool string, rec *telemetry.Record) *route {
	at := uint(0)
	for _, name := range [...]string{tool, rec.Backend, rec.Call.Tenant} {
		at *= 7
		if n := len(name); n > 0 {
			at += uint(n) + uint(name[n-1])*3 + uint(name[n/2])
		}
	}
	return &l.routes[at%uint(len(l.routes))]
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

// record adds a call to each series of the route.
func (r *route) record(c *counting) {
	r.fleet.add(c)
	r.tenant.add(c)
	if r.tool != nil {
		r.tool.add(c)
	}
	if r.backend != nil {
		r.backend.add(c)
	}
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

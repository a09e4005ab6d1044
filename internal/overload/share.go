package overload

import (
	"strings"
	"sync/atomic"
)

// Share is one tenant's share of the process.
type Share struct {
	shedder *Shedder
	only    bool        // there is no other tenant
	dropped atomic.Bool // the tenant has another share, or none
	started atomic.Int64
	ended   atomic.Int64
	tokens  atomic.Int64 // of work that may begin while the rate is limited; negative: a debt
	hog     atomic.Bool  // holds more than its fair share of a memory that is short

	charged  atomic.Int64            // work of admitted requests besides their calls, in bytes
	rejected atomic.Int64            // work of rejected requests, in bytes
	refused  [numLimits]atomic.Int64 // rejected calls and requests, by limit

	// Only Tick and report use the fields below.
	was    counters
	use    *Use    // at the last tick; nil: unknown
	moved  float64 // bytes that the relay moved since, in calls
	demand float64 // demand in calls a second, admitted or not
	idle   int     // consecutive ticks without calls
	logged [numLimits]int64
}

// counters are those of a Share at the last tick.
type counters struct{ started, refused, charged, rejected int64 }

func (t *Share) counters() counters {
	c := counters{started: t.started.Load(), charged: t.charged.Load(), rejected: t.rejected.Load()}
	for i := range t.refused {
		c.refused += t.refused[i].Load()
	}
	return c
}

// since returns the admitted work and all work since earlier counters, in calls.
func (c counters) since(was counters) (admitted, came float64) {
	admitted = float64(c.started-was.started) + float64(c.charged-was.charged)/CallBytes
	return admitted, admitted + float64(c.refused-was.refused) + float64(c.rejected-was.rejected)/CallBytes
}

// observe measures the tenant's use since the last tick. It returns the work that is not finished, in calls.
func (t *Share) observe(source *func(tenant string) Use, tenant string) (unfinished float64) {
	was := t.use
	t.use, t.moved = nil, 0
	if source == nil || t.only {
		return 0
	}
	now := (*source)(tenant)
	if t.use = &now; was != nil {
		t.moved = float64(max(now.Moved-was.Moved, 0)) / movedBytes
		t.tokens.Add(-int64(t.moved * token))
	}
	return float64(now.Doors) / CallBytes
}

// movedBytes is the number of bytes that the relay moves with the work of one call.
const movedBytes = 64 << 10

// CallBytes is the number of bytes of a body whose work counts as one call. A JSON call has as much work beside its
// body as 4 to 16 KiB of the body.
const CallBytes = 4 << 10

// Done ends a call that was admitted.
func (t *Share) Done() {
	t.ended.Add(1)
	t.shedder.inFlight.Add(-1)
}

func (t *Share) running() int64 { return t.started.Load() - t.ended.Load() }

// charge counts the work of so many bytes, which may begin only while the tenant has tokens.
func (t *Share) charge(bytes int64) {
	bytes = min(bytes, unbounded)
	t.charged.Add(bytes)
	if t.shedder.limited.Load() {
		t.tokens.Add(-bytes * token / CallBytes)
	}
}

// take takes one token, if there is one.
func (t *Share) take() bool {
	if t.tokens.Add(-token) >= 0 {
		return true
	}
	t.tokens.Add(token)
	return false
}

func (s *Shedder) share(tenant string) *Share {
	if t, ok := s.shares.Load(tenant); ok {
		return t.(*Share)
	}
	return s.newShare(strings.Clone(tenant))
}

// newShare is separate from share so that only it allocates.
func (s *Shedder) newShare(tenant string) *Share {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Share{shedder: s, only: tenant == ""}
	t.tokens.Store(s.newTenantTokens.Load())
	known, _ := s.shares.LoadOrStore(tenant, t)
	return known.(*Share)
}

// each visits the tenants with recent calls.
func (s *Shedder) each(visit func(tenant string, t *Share)) {
	s.shares.Range(func(tenant, t any) bool {
		visit(tenant.(string), t.(*Share))
		return true
	})
}

// Tenants returns the number of tenants with a share.
func (s *Shedder) Tenants() (n int) {
	s.each(func(string, *Share) { n++ })
	return n
}

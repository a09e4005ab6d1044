package overload

import (
	"strings"
	"sync/atomic"
)

// Share is one tenant's share of the process.
type Share struct {
	shedder *Shedder
	only    bool // there is no other tenant
	started atomic.Int64
	ended   atomic.Int64
	refused atomic.Int64
	tokens  atomic.Int64 // of calls that may begin while the rate is limited

	// Only Tick uses the fields below.
	wasStarted, wasRefused int64
	demand                 float64 // demand in calls a second, admitted or not
	idle                   int     // consecutive ticks without calls
}

// Done ends a call that was admitted.
func (t *Share) Done() {
	t.ended.Add(1)
	t.shedder.inFlight.Add(-1)
}

func (t *Share) running() int64 { return t.started.Load() - t.ended.Load() }

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

package overload

import (
	"strings"
	"sync/atomic"
)

// Share is what one tenant has of the process.
type Share struct {
	shedder *Shedder
	alone   bool // there is no other tenant
	started atomic.Int64
	ended   atomic.Int64
	refused atomic.Int64
	tokens  atomic.Int64 // for calls that it may begin while the rate is limited

	// Tick's own.
	wasStarted, wasRefused int64
	demand                 float64 // calls a second that it brings, admitted or not
	idle                   int     // ticks in which it brought none
}

// Done ends a call that was admitted.
func (t *Share) Done() {
	t.ended.Add(1)
	t.shedder.inFlight.Add(-1)
}

func (t *Share) running() int64 { return t.started.Load() - t.ended.Load() }

// take uses up one token, if there is one.
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

// newShare is apart from share so that only it has to allocate.
func (s *Shedder) newShare(tenant string) *Share {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Share{shedder: s, alone: tenant == ""}
	t.tokens.Store(s.welcome.Load())
	known, _ := s.shares.LoadOrStore(tenant, t)
	return known.(*Share)
}

// each visits the tenants that brought calls a short while ago.
func (s *Shedder) each(visit func(tenant string, t *Share)) {
	s.shares.Range(func(tenant, t any) bool {
		visit(tenant.(string), t.(*Share))
		return true
	})
}

// Tenants is how many tenants have a share.
func (s *Shedder) Tenants() (n int) {
	s.each(func(string, *Share) { n++ })
	return n
}

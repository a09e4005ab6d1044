package ratelimit

// fallBack grants from the replica's share while the store is late: the pending demands, and those that come
// meanwhile.
func (a *tenantState) fallBack(scopes []*scope, demands []Demand) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = true
	for i, s := range scopes {
		a.grantLocally(s, &demands[i])
	}
	for _, resume := range a.waiting {
		a.limiter.resume(resume)
	}
	a.waiting = nil
}

// fallBackQueued grants from the replica's share when the store is so late with other tenants that these demands were
// not sent. It returns the calls that may continue.
func (a *tenantState) fallBackQueued() (waiting []func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = true
	for _, s := range a.due {
		if !s.gone && (s.need > 0 || s.wanting > 0) {
			a.limiter.fallBackScope(s)
		}
	}
	waiting, a.waiting = a.waiting, nil
	return waiting
}

// grantLocally grants one demand from the replica's share.
func (a *tenantState) grantLocally(s *scope, demand *Demand) {
	l := a.limiter
	l.counts.ownShare.Add(1)
	got := s.localGrant(demand, l.now(), l.replicas.Load())
	s.provisional += got.Calls
	s.apply(demand, &got, l.now())
}

// fallBackScope is grantLocally for a call that comes while the store is late.
func (l *Limiter) fallBackScope(s *scope) {
	if s.denied(false, 0) != nil && s.wanting == 0 {
		s.need = 0
		return
	}
	demand := s.demandOf(l.now())
	back, unreported := demand.Returned, demand.Unleased
	s.of.grantLocally(s, &demand)
	s.returned, s.unreported = s.returned+back, s.unreported+unreported
	s.of.schedule(s)
}

package ratelimit

// standIn answers for a store that is late, what it has not answered and what is asked meanwhile.
func (a *account) standIn(scopes []*scope, asks []Ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = true
	for i, s := range scopes {
		a.own(s, &asks[i])
	}
	for _, resume := range a.waiting {
		a.limiter.resume(resume)
	}
	a.waiting = nil
}

// standInUnasked answers for a store that is so late with others that this account's question has not been put to
// it. It returns the calls that may go on.
func (a *account) standInUnasked() (waiting []func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = true
	for _, s := range a.due {
		if !s.gone && (s.need > 0 || s.wanting > 0) {
			a.limiter.stand(s)
		}
	}
	waiting, a.waiting = a.waiting, nil
	return waiting
}

// own answers one ask by the replica's share.
func (a *account) own(s *scope, asked *Ask) {
	l := a.limiter
	l.counts.ownShare.Add(1)
	got := s.share(asked, l.now(), l.replicas.Load())
	s.stood += got.Calls
	s.take(asked, &got, l.now())
}

// stand is own for a call that comes while the store is late.
func (l *Limiter) stand(s *scope) {
	if s.denied(false, 0) != nil && s.wanting == 0 {
		s.need = 0
		return
	}
	asked := s.ask(l.now())
	back, owed := asked.Back, asked.Spent
	s.of.own(s, &asked)
	s.back, s.owed = s.back+back, s.owed+owed
	s.of.touch(s)
}

package router

import "context"

// schedule schedules an exchange. An exchange in flight lacks later demands, so another one follows it.
// The caller holds mu.
func (l *limiter) schedule() {
	if l.limits.cfg.Store == nil {
		return
	}
	if l.unansweredSince == never {
		l.unansweredSince = l.now()
	}
	if l.scheduled {
		l.rerun = true
		return
	}
	l.scheduled = true
	l.limits.schedule(l)
}

// exchange reports the permits in use and wanted, and takes the store's grants.
func (l *limiter) exchange(ctx context.Context) {
	l.mu.Lock()
	l.rerun = false
	demands := l.demands()
	began := l.now()
	l.mu.Unlock()
	var grants []Grant
	var err error
	if len(demands) > 0 {
		grants, err = l.limits.cfg.Store.Exchange(ctx, l.capability, demands)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil || len(grants) != len(demands):
		l.exhausted = false
		l.storeUnavailable = l.storeUnavailable || l.limits.unavailable()
	case len(demands) == 0:
		l.unansweredSince, l.storeUnavailable, l.shared = never, l.limits.unavailable(), false
	default:
		l.unansweredSince, l.storeUnavailable = never, l.now()-began >= l.limits.cfg.Timeout
		l.applyGrants(demands, grants)
	}
	before := l.queue.count
	l.dispatch()
	if l.queue.count > 0 && l.queue.count < before {
		l.rerun = true // further permits may be available
	}
	l.scheduled = false
	if l.rerun {
		l.schedule()
	}
}

// demands returns the demands of the backends that have any. Permits that are not retained are given up
// at once, before the store is updated. The caller must hold mu.
func (l *limiter) demands() []Demand {
	needs := l.needs()
	var demands []Demand
	for _, p := range l.pools {
		w := p.demand(needs[p.addr])
		p.held = w.Retain
		if p.limit == 0 && p.used == 0 {
			delete(l.pools, p.addr)
		}
		if p.known = p.known || w.Retain+w.Need+w.Spare > 0; p.known {
			l.seq++
			w.Seq = l.seq
			demands = append(demands, w)
		}
	}
	l.shared = l.shared || len(demands) > 0
	return demands
}

// needs returns the number of calls for which each backend should have a permit. Calls that may use any
// backend ask a few of them, as a large fleet has thousands. They ask the same ones for a while, so
// that they advance in the store's queues.
func (l *limiter) needs() map[string]int {
	needs, anywhere := map[string]int{}, 0
	l.queue.each(func(w *Waiter) {
		if b := w.request.Backend; b != nil {
			needs[b.Addr]++
		} else {
			anywhere++
		}
	})
	l.exhausted = anywhere > 0 // unless permits are granted
	usable := l.state.Load().fleet.Load().pick.Load().all
	few := min(len(usable), max(maxAsked, anywhere))
	for i, asked := 0, 0; i < len(usable) && asked < few; i++ {
		addr := usable[(l.offset+i)%len(usable)].Addr
		if p := l.pools[addr]; p != nil && p.used < p.limit {
			needs[addr] += (anywhere + few - 1) / few
			asked++
		}
	}
	return needs
}

// applyGrants takes the store's answer. The caller holds mu.
func (l *limiter) applyGrants(demands []Demand, grants []Grant) {
	l.shared = false
	for i, g := range grants {
		p := l.pools[demands[i].Addr]
		if need := demands[i].Need; need > 0 && g.Held-demands[i].Retain >= need && (p == nil || !p.partial) {
			l.exhausted = false
		}
		known := g.Held > 0 || demands[i].Need > 0
		l.shared = l.shared || known
		if p == nil {
			continue
		}
		p.known = known
		if p.limit == 0 {
			continue
		}
		p.held, p.waiting, p.replicas = g.Held, g.Waiting, g.Replicas
		if p.waiting > 0 && p.held > p.used && l.queue.count == 0 {
			l.rerun = true // other replicas wait for permits that are unused here
		}
	}
}

// returnPermits returns all permits that no call has.
func (l *limiter) returnPermits(ctx context.Context) {
	l.mu.Lock()
	var demands []Demand
	for _, p := range l.pools {
		p.held = p.used
		if p.known {
			l.seq++
			demands = append(demands, Demand{Addr: p.addr, Limit: p.limit, Used: p.used, Retain: p.used, Seq: l.seq})
		}
	}
	l.mu.Unlock()
	if len(demands) > 0 {
		_, _ = l.limits.cfg.Store.Exchange(ctx, l.capability, demands) // after an error they expire
	}
}

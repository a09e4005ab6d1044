package router

import "context"

// ask schedules an exchange. An exchange in flight lacks later demands, so another one follows it.
// The caller holds mu.
func (l *limiter) ask() {
	if l.all.cfg.Slots == nil {
		return
	}
	if l.owed == never {
		l.owed = l.now()
	}
	if l.asked {
		l.again = true
		return
	}
	l.asked = true
	l.all.ask(l)
}

// exchange reports the permits in use and wanted, and takes the store's grants.
func (l *limiter) exchange(ctx context.Context) {
	l.mu.Lock()
	l.again = false
	wants := l.wants()
	began := l.now()
	l.mu.Unlock()
	var grants []Grant
	var err error
	if len(wants) > 0 {
		grants, err = l.all.cfg.Slots.Exchange(ctx, l.capability, wants)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil || len(grants) != len(wants):
		l.short = false
		l.away = l.away || l.all.away()
	case len(wants) == 0:
		l.owed, l.away, l.shared = never, l.all.away(), false
	default:
		l.owed, l.away = never, l.now()-began >= l.all.cfg.Patience
		l.granted(wants, grants)
	}
	before := l.queue.count
	l.dispatch()
	if l.queue.count > 0 && l.queue.count < before {
		l.again = true // further permits may be available
	}
	l.asked = false
	if l.again {
		l.ask()
	}
}

// wants returns the demands of the backends that have any. Permits that are not retained are given up
// at once, before the store knows. The caller holds mu.
func (l *limiter) wants() []Want {
	needs := l.needs()
	var wants []Want
	for _, p := range l.pools {
		w := p.want(needs[p.addr])
		p.held = w.Keep
		if p.limit == 0 && p.used == 0 {
			delete(l.pools, p.addr)
		}
		if p.known = p.known || w.Keep+w.Need+w.Spare > 0; p.known {
			l.seq++
			w.Seq = l.seq
			wants = append(wants, w)
		}
	}
	l.shared = l.shared || len(wants) > 0
	return wants
}

// needs returns the number of calls for which each backend should have a permit. Calls that may use any
// backend ask a few of them, as a large fleet has thousands. They ask the same ones for a while, so
// that they advance in the store's queues.
func (l *limiter) needs() map[string]int {
	needs, anywhere := map[string]int{}, 0
	l.queue.each(func(w *Waiter) {
		if b := w.entrant.Backend; b != nil {
			needs[b.Addr]++
		} else {
			anywhere++
		}
	})
	l.short = anywhere > 0 // unless permits are granted
	usable := l.standing.Load().fleet.Load().pick.Load().all
	few := min(len(usable), max(maxAsked, anywhere))
	for i, asked := 0, 0; i < len(usable) && asked < few; i++ {
		addr := usable[(l.turn+i)%len(usable)].Addr
		if p := l.pools[addr]; p != nil && p.used < p.limit {
			needs[addr] += (anywhere + few - 1) / few
			asked++
		}
	}
	return needs
}

// granted takes the store's answer. The caller holds mu.
func (l *limiter) granted(wants []Want, grants []Grant) {
	l.shared = false
	for i, g := range grants {
		p := l.pools[wants[i].Addr]
		if need := wants[i].Need; need > 0 && g.Held-wants[i].Keep >= need && (p == nil || !p.modest) {
			l.short = false
		}
		known := g.Held > 0 || wants[i].Need > 0
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
			l.again = true // other replicas wait for permits that are unused here
		}
	}
}

// leave returns all permits that no call has.
func (l *limiter) leave(ctx context.Context) {
	l.mu.Lock()
	var wants []Want
	for _, p := range l.pools {
		p.held = p.used
		if p.known {
			l.seq++
			wants = append(wants, Want{Addr: p.addr, Limit: p.limit, Used: p.used, Keep: p.used, Seq: l.seq})
		}
	}
	l.mu.Unlock()
	if len(wants) > 0 {
		_, _ = l.all.cfg.Slots.Exchange(ctx, l.capability, wants) // after an error they expire
	}
}

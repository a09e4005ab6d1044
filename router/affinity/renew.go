package affinity

import (
	"context"
	"slices"
	"time"
)

const (
	// batch is the number of pins or artifacts in one command to the store.
	batch = 64
	// batchTimeout bounds the command of one batch.
	batchTimeout = 2 * time.Second
)

// enqueue schedules the renewal of a pin. The caller holds mu.
func (r *Resolver) enqueue(p *Pinned) {
	if p.renewing {
		return
	}
	if len(r.renewals) >= r.cfg.Sessions { // the store is unavailable
		r.renewals = slices.DeleteFunc(r.renewals, func(p *Pinned) bool { return !r.current(p) })
		if len(r.renewals) >= r.cfg.Sessions {
			return
		}
	}
	p.renewing = true
	r.renewals = append(r.renewals, p)
}

// current reports whether a pin is still the one in memory. The caller holds mu.
func (r *Resolver) current(p *Pinned) bool {
	now, ok := r.sessions.Peek(p.session)
	return ok && now == p
}

// onMove takes the event that another gateway has moved a session.
func (r *Resolver) onMove(s Session, pin Pin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.sessions.Peek(s)
	if !ok || p.pin.Moves >= pin.Moves {
		return
	}
	if pin.Addr != "" && p.fleet.Backend(pin.Addr) == nil {
		r.sessions.Remove(s) // the next call queries the store; that backend should then be configured here too
		return
	}
	anew := newPinned(&Query{Fleet: p.fleet, Tenant: s.Tenant, Session: s.ID}, pin, true)
	anew.session, anew.confirmedAt, anew.unregistered = p.session, time.Now(), true
	r.sessions.Add(p.session.Tenant, p.session, anew)
}

// onGap schedules the renewal of all sessions in memory: the store may have lost them, or other
// gateways may have moved them.
func (r *Resolver) onGap() { r.recheck.Store(true) }

// watch receives the events of other gateways until ctx ends.
func (r *Resolver) watch(ctx context.Context, _ func()) { r.store.Watch(ctx, r.onMove, r.onGap) }

// renew renews pins in the store. It returns the time until the next renewal.
func (r *Resolver) renew(ctx context.Context) time.Duration {
	if r.store.Unavailable() {
		return r.cfg.Every
	}
	if r.recheck.Swap(false) {
		r.enqueueAll()
	}
	for left := r.queued(); left > 0 && ctx.Err() == nil && r.renewBatch(ctx); left -= batch {
	}
	return r.cfg.Every
}

// enqueueAll schedules the renewal of all pins in memory.
func (r *Resolver) enqueueAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions.Each(func(_ Session, p *Pinned) bool {
		r.enqueue(p)
		return true
	})
}

// renewBatch renews one batch of pins, and reports whether to continue.
func (r *Resolver) renewBatch(ctx context.Context) bool {
	pins, bindings := r.takeBatch()
	if len(pins) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	bound, err := r.store.Bind(ctx, bindings)
	if err != nil {
		r.cfg.Log.Debug("could not renew the pins of sessions", "sessions", len(pins), "error", err)
		r.mu.Lock()
		r.renewals = append(pins, r.renewals...)
		r.mu.Unlock()
		return false
	}
	for i, p := range pins {
		if bound[i].Pin != bindings[i].Pin {
			r.reconcile(ctx, p, bindings[i], bound[i])
			continue
		}
		r.mu.Lock()
		p.confirmedAt, p.renewing, p.unregistered = time.Now(), false, bindings[i].Unused
		if p.unregistered && p.used.Load() { // since the command
			r.enqueue(p)
		}
		r.mu.Unlock()
	}
	return true
}

// queued returns the number of pins to renew.
func (r *Resolver) queued() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.renewals)
}

// takeBatch removes and returns the next batch.
func (r *Resolver) takeBatch() (pins []*Pinned, bindings []Binding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.renewals {
		if len(pins) == batch {
			break
		}
		n++
		if r.current(p) {
			pins = append(pins, p)
			bindings = append(bindings, Binding{p.session, p.pin, p.fleet.Affinity().SessionTTL, !p.used.Load()})
		}
	}
	r.renewals = slices.Delete(r.renewals, 0, n)
	return pins, bindings
}

// reconcile resolves a difference between memory and store. The pin with more moves wins. Of two
// unmoved pins the store's wins, if its backend is alive.
func (r *Resolver) reconcile(ctx context.Context, p *Pinned, local Binding, stored BindResult) {
	r.mu.Lock()
	q := &Query{Fleet: p.fleet, Tenant: p.session.Tenant, Session: p.session.ID}
	r.mu.Unlock()
	_, s := checkPin(q, stored.Pin)
	pin, dead := stored.Pin, s == lost
	if dead && q.Fleet.Backend(pin.Addr) == nil && stored.Age < joinGrace {
		r.requeue(p)
		return
	}
	if pin.Moves < local.Pin.Moves || dead {
		from := stored.Pin
		local.Pin.Moves = max(local.Pin.Moves, from.Moves+1)
		bound, err := r.store.Move(ctx, local, from)
		if err != nil {
			r.requeue(p)
			return
		}
		pin = bound.Pin
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current(p) {
		return
	}
	adopted := newPinned(q, pin, pin.Addr == p.pin.Addr && !p.used.Load())
	adopted.confirmedAt, adopted.unregistered = time.Now(), true
	r.sessions.Add(adopted.session.Tenant, adopted.session, adopted)
}

// requeue queues a pin once more.
func (r *Resolver) requeue(p *Pinned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.renewing = false
	r.enqueue(p)
}

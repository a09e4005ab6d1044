package affinity

import (
	"context"
	"slices"
	"time"
)

const (
	// batch is the number of pins or artifacts in one command to the store.
	batch = 64
	// tellTimeout bounds the command of one batch.
	tellTimeout = 2 * time.Second
)

// queue schedules the renewal of a pin. The caller holds mu.
func (k *Keeper) queue(p *Pinned) {
	if p.queued {
		return
	}
	if len(k.due) >= k.cfg.Sessions { // the store is unavailable
		k.due = slices.DeleteFunc(k.due, func(p *Pinned) bool { return !k.current(p) })
		if len(k.due) >= k.cfg.Sessions {
			return
		}
	}
	p.queued = true
	k.due = append(k.due, p)
}

// current reports whether a pin is still the one in memory. The caller holds mu.
func (k *Keeper) current(p *Pinned) bool {
	now, ok := k.sessions.Peek(p.session)
	return ok && now == p
}

// onMove takes the event that another gateway has moved a session.
func (k *Keeper) moved(s Session, pin Pin) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.sessions.Peek(s)
	if !ok || p.pin.Moves >= pin.Moves {
		return
	}
	if pin.Addr != "" && p.fleet.Backend(pin.Addr) == nil {
		k.sessions.Remove(s) // the next call queries the store; that backend should then be configured here too
		return
	}
	anew := newPinned(&Query{Fleet: p.fleet, Tenant: s.Tenant, Session: s.ID}, pin, true)
	anew.session, anew.told, anew.unnoted = p.session, time.Now(), true
	k.sessions.Add(p.session.Tenant, p.session, anew)
}

// onGap schedules the renewal of all sessions in memory: the store may have lost them, or other
// gateways may have moved them.
func (k *Keeper) missed() { k.recheck.Store(true) }

// renewLoop renews pins in the store until ctx ends.
func (k *Keeper) confirmDue(ctx context.Context) {
	tick := time.NewTicker(k.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if k.store.Away() {
			continue
		}
		if k.recheck.Swap(false) {
			k.queueAll()
		}
		for left := k.waiting(); left > 0 && ctx.Err() == nil; left -= batch {
			if !k.confirm(ctx) {
				break
			}
		}
	}
}

// queueAll schedules the renewal of all pins in memory.
func (k *Keeper) queueAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sessions.Each(func(_ Session, p *Pinned) bool {
		k.queue(p)
		return true
	})
}

// renewBatch renews one batch of pins, and reports whether to continue.
func (k *Keeper) confirm(ctx context.Context) bool {
	pins, bindings := k.take()
	if len(pins) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	bound, err := k.store.Bind(ctx, bindings)
	if err != nil {
		k.cfg.Log.Debug("could not renew the pins of sessions", "sessions", len(pins), "error", err)
		k.mu.Lock()
		k.due = append(pins, k.due...)
		k.mu.Unlock()
		return false
	}
	for i, p := range pins {
		if bound[i].Pin != bindings[i].Pin {
			k.reconcile(ctx, p, bindings[i], bound[i])
			continue
		}
		k.mu.Lock()
		p.told, p.queued, p.unnoted = time.Now(), false, bindings[i].Idle
		if p.unnoted && p.used.Load() { // since the command
			k.queue(p)
		}
		k.mu.Unlock()
	}
	return true
}

// waiting returns the number of pins to renew.
func (k *Keeper) waiting() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.due)
}

// take removes and returns the next batch.
func (k *Keeper) take() (pins []*Pinned, bindings []Binding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, p := range k.due {
		if len(pins) == batch {
			break
		}
		n++
		if k.current(p) {
			pins = append(pins, p)
			bindings = append(bindings, Binding{p.session, p.pin, p.fleet.Affinity().SessionTTL, !p.used.Load()})
		}
	}
	k.due = slices.Delete(k.due, 0, n)
	return pins, bindings
}

// reconcile resolves a difference between memory and store. The pin with more moves wins. Of two
// unmoved pins the store's wins, if its backend is alive.
func (k *Keeper) reconcile(ctx context.Context, p *Pinned, mine Binding, theirs Bound) {
	k.mu.Lock()
	q := &Query{Fleet: p.fleet, Tenant: p.session.Tenant, Session: p.session.ID}
	k.mu.Unlock()
	_, s := judge(q, theirs.Pin)
	pin, dead := theirs.Pin, s == broken
	if dead && q.Fleet.Backend(pin.Addr) == nil && theirs.Age < joining {
		k.again(p)
		return
	}
	if pin.Moves < mine.Pin.Moves || dead {
		from := theirs.Pin
		mine.Pin.Moves = max(mine.Pin.Moves, from.Moves+1)
		bound, err := k.store.Move(ctx, mine, from)
		if err != nil {
			k.again(p)
			return
		}
		pin = bound.Pin
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.current(p) {
		return
	}
	adopted := newPinned(q, pin, pin.Addr == p.pin.Addr && !p.used.Load())
	adopted.told, adopted.unnoted = time.Now(), true
	k.sessions.Add(adopted.session.Tenant, adopted.session, adopted)
}

// again queues a pin once more.
func (k *Keeper) again(p *Pinned) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.queued = false
	k.queue(p)
}

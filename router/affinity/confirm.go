package affinity

import (
	"context"
	"slices"
	"time"
)

const (
	// batch is how many pins or artifacts the store is told of at once.
	batch = 64
	// tellTimeout bounds a batch.
	tellTimeout = 2 * time.Second
)

// queue marks a pin to be confirmed. The caller holds mu.
func (k *Keeper) queue(p *Pinned) {
	if p.queued {
		return
	}
	if len(k.due) >= k.cfg.Sessions { // while the store is away
		k.due = slices.DeleteFunc(k.due, func(p *Pinned) bool { return !k.current(p) })
		if len(k.due) >= k.cfg.Sessions {
			return
		}
	}
	p.queued = true
	k.due = append(k.due, p)
}

// current says whether a pin is still the one in memory. The caller holds mu.
func (k *Keeper) current(p *Pinned) bool {
	now, ok := k.sessions.Peek(p.session)
	return ok && now == p
}

// moved takes from another gateway that it has pinned a session anew.
func (k *Keeper) moved(s Session, pin Pin) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.sessions.Peek(s)
	if !ok || p.pin.Moves >= pin.Moves {
		return
	}
	if pin.Addr != "" && p.fleet.Backend(pin.Addr) == nil {
		k.sessions.Remove(s) // the next call asks, when that backend is known here, too
		return
	}
	anew := newPinned(&Query{Fleet: p.fleet, Tenant: s.Tenant, Session: s.ID}, pin, true)
	anew.session, anew.told, anew.unnoted = p.session, time.Now(), true
	k.sessions.Add(p.session.Tenant, p.session, anew)
}

// missed has the store asked about all sessions in memory: it may have forgotten them,
// or others may have moved them.
func (k *Keeper) missed() { k.recheck.Store(true) }

// confirmDue tells the store of pins, until ctx ends.
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

// queueAll marks all pins in memory.
func (k *Keeper) queueAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sessions.Each(func(_ Session, p *Pinned) bool {
		k.queue(p)
		return true
	})
}

// confirm tells the store of a batch, and says whether to go on.
func (k *Keeper) confirm(ctx context.Context) bool {
	pins, bindings := k.take()
	if len(pins) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	bound, err := k.store.Bind(ctx, bindings)
	if err != nil {
		k.cfg.Log.Debug("sessions not confirmed", "sessions", len(pins), "error", err)
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
		if p.unnoted && p.used.Load() { // since the store was told
			k.queue(p)
		}
		k.mu.Unlock()
	}
	return true
}

// waiting is how many pins are to be confirmed.
func (k *Keeper) waiting() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.due)
}

// take is the next batch.
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

// reconcile ends a difference between memory and store: the pin holds that was moved
// more often, and of two that were not the store's, if its backend lives.
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

// again lets a pin that was taken be confirmed later.
func (k *Keeper) again(p *Pinned) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.queued = false
	k.queue(p)
}

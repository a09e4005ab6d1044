package approvals

import (
	"context"
	"errors"
	"sync"
)

const (
	// listenerNotices is how many notices wait for a reader of all tenants' events. One that is slower misses some.
	listenerNotices = 256
	// noPlace is the id of events of all tenants: none of them is a place to go on from.
	noPlace = "0-0"
)

// listeners are the readers of all tenants' events.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]struct{}
}

type listener struct {
	notices chan Notice
	missed  chan struct{} // holds one: notices were lost
}

func (l *listeners) add() *listener {
	one := &listener{notices: make(chan Notice, listenerNotices), missed: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*listener]struct{}{}
	}
	l.all[one] = struct{}{}
	return one
}

func (l *listeners) remove(one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, one)
}

// tell hands a notice to all of them, and does not block.
func (l *listeners) tell(n Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		select {
		case one.notices <- n:
		default:
			signal(one.missed)
		}
	}
}

// lose says that notices may have been lost.
func (l *listeners) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		signal(one.missed)
	}
}

// EventsOfAll hands what happens to the approvals of all tenants to f from now on, as Events does for one tenant.
// There is no place to go on from: for a reader that was there before, and wherever notices were lost, there is
// an event of kind WasMissed. It needs Run.
func (k *Keeper) EventsOfAll(ctx context.Context, before bool, f func(Event) error) error {
	l := k.listeners.add()
	defer k.listeners.remove(l)
	err := f(Event{ID: noPlace, Kind: Began})
	if err == nil && before {
		err = f(Event{ID: noPlace, Kind: WasMissed})
	}
	for err == nil {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-l.missed:
			err = f(Event{ID: noPlace, Kind: WasMissed})
		case n := <-l.notices:
			err = f(k.eventOf(ctx, &n))
		}
	}
	return err
}

// eventOf is what a notice tells of.
func (k *Keeper) eventOf(ctx context.Context, n *Notice) Event {
	r, err := k.store.Get(ctx, n.Tenant, n.ID)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return Event{ID: noPlace, Kind: WasMissed}
	}
	if r.ID == "" { // it is forgotten
		r.ID, r.Tenant = n.ID, n.Tenant
		return Event{ID: noPlace, Kind: n.Kind, Approval: r.Approval}
	}
	return Event{ID: noPlace, Kind: n.Kind, Approval: k.shown(&r)}
}

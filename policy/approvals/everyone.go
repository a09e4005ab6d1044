package approvals

import (
	"context"
	"errors"
	"sync"
)

const (
	// listenerBuffer is how many notices wait for a reader of all tenants' events. One that is slower misses some.
	listenerBuffer = 256
	// noEventID is the id of events of all tenants: none of them is a place to go on from.
	noEventID = "0-0"
)

// listeners are the readers of all tenants' events.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]struct{}
}

type listener struct {
	notifications chan Notification
	lost          chan struct{} // holds one: notices were lost
}

func (l *listeners) add() *listener {
	one := &listener{notifications: make(chan Notification, listenerBuffer), lost: make(chan struct{}, 1)}
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

// notify hands a notice to all of them, and does not block.
func (l *listeners) notify(n Notification) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		select {
		case one.notifications <- n:
		default:
			signal(one.lost)
		}
	}
}

// notifyLost says that notices may have been lost.
func (l *listeners) notifyLost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		signal(one.lost)
	}
}

// AllEvents hands what happens to the approvals of all tenants to f from now on, as Events does for one tenant.
// There is no place to go on from: for a reader that was there before, and wherever notices were lost, there is
// an event of kind WasMissed. It needs Run.
func (k *Service) AllEvents(ctx context.Context, before bool, f func(Event) error) error {
	l := k.listeners.add()
	defer k.listeners.remove(l)
	err := f(Event{ID: noEventID, Kind: EventsStart})
	if err == nil && before {
		err = f(Event{ID: noEventID, Kind: EventsLost})
	}
	for err == nil {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-l.lost:
			err = f(Event{ID: noEventID, Kind: EventsLost})
		case n := <-l.notifications:
			err = f(k.eventFor(ctx, &n))
		}
	}
	return err
}

// eventFor is what a notice tells of.
func (k *Service) eventFor(ctx context.Context, n *Notification) Event {
	r, err := k.store.Get(ctx, n.Tenant, n.ID)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return Event{ID: noEventID, Kind: EventsLost}
	}
	if r.ID == "" { // it is forgotten
		r.ID, r.Tenant = n.ID, n.Tenant
		return Event{ID: noEventID, Kind: n.Kind, Approval: r.Approval}
	}
	return Event{ID: noEventID, Kind: n.Kind, Approval: k.view(&r)}
}

package approvals

import (
	"context"
	"errors"
	"sync"

	"github.com/capgate/capgate/internal/lib/signal"
)

const (
	// listenerBuffer is the buffer of a reader of all tenants' events. A slower reader loses events.
	listenerBuffer = 256
	// noEventID is the id of events of all tenants, which have no position.
	noEventID = "0-0"
)

// listeners are the readers of all tenants' events.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]struct{}
}

type listener struct {
	notifications chan *sharedNotification
	lost          chan struct{} // capacity 1: notifications were lost
}

func (l *listeners) add() *listener {
	one := &listener{notifications: make(chan *sharedNotification, listenerBuffer), lost: make(chan struct{}, 1)}
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

// notify sends a notification to all listeners. It does not block.
func (l *listeners) notify(n Notification) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shared := &sharedNotification{Notification: n}
	for one := range l.all {
		select {
		case one.notifications <- shared:
		default:
			signal.Wake(one.lost)
		}
	}
}

// notifyLost records that notifications may have been lost.
func (l *listeners) notifyLost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		signal.Wake(one.lost)
	}
}

// AllEvents calls f for the events of all tenants' approvals from now on, like Events. They have no
// positions: a reader that reconnects, and any loss of notifications, gets EventsLost. Run must be
// running.
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
			err = f(n.load(func(n *Notification) (Event, bool) { return k.eventFor(ctx, n) }))
		}
	}
	return err
}

// eventFor loads the approval of a notification. It returns false if that failed.
func (k *Service) eventFor(ctx context.Context, n *Notification) (Event, bool) {
	r, err := k.store.Get(ctx, n.Tenant, n.ID)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return Event{ID: noEventID, Kind: EventsLost}, false
	}
	if r.ID == "" { // it was deleted
		r.ID, r.Tenant = n.ID, n.Tenant
		return Event{ID: noEventID, Kind: n.Kind, Approval: r.Approval}, true
	}
	return Event{ID: noEventID, Kind: n.Kind, Approval: k.view(&r)}, true
}

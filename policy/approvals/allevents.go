package approvals

import (
	"context"
	"errors"
)

const (
	// listenerBuffer is the buffer of a reader of all tenants' events. A slower reader loses events.
	listenerBuffer = 256
	// noEventID is the id of events of all tenants, which have no position.
	noEventID = "0-0"
)

// AllEvents calls f for the events of all tenants' approvals from now on, like Events. They have no
// positions: a reader that reconnects, and any loss of notifications, gets EventsLost. Run must be
// running.
func (k *Service) AllEvents(ctx context.Context, before bool, f func(Event) error) error {
	l := k.listeners.Join(listenerBuffer, nil)
	defer k.listeners.Leave(l)
	err := f(Event{ID: noEventID, Kind: EventsStart})
	if err == nil && before {
		err = f(Event{ID: noEventID, Kind: EventsLost})
	}
	for err == nil {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-l.Missed:
			err = f(Event{ID: noEventID, Kind: EventsLost})
		case n := <-l.Values:
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

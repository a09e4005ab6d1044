package approvals

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// eventsPage is how many events are read at once.
const eventsPage = 100

// Events hands all that happens to a tenant's approvals to f, in its order, until ctx ends
// or f fails, and returns that error. It begins after the event with an id, with "" at
// what is to come, and with "0" at the oldest that is kept, about 10,000. First of all it
// says where, by an event of kind Began. Where events are gone that f should have had, one
// of kind WasMissed comes next.
//
// While the store is away it waits. Other errors are ErrBusy, and a *call.Refusal for what
// is no event's id.
func (k *Service) Events(ctx context.Context, tenant, after string, f func(Event) error) error {
	if !isEventID(after) {
		return &call.Refusal{Kind: call.InvalidArgument, Reason: "EVENT_INVALID", Message: "that is no id of an event of approvals"}
	}
	wake, remove, ok := k.waiters.add(waitKey{tenant, ""})
	if !ok {
		return ErrBusy
	}
	defer remove()
	for began := false; ; {
		begin := after
		events, last, err := k.store.Events(ctx, tenant, after, eventsPage)
		if err == nil {
			after = last
		}
		if err == nil && !began {
			began = true
			if err := f(Event{ID: cmp.Or(begin, last), Kind: EventsStart}); err != nil {
				return err
			}
		}
		for i := range events {
			e := &events[i]
			if err := f(Event{ID: e.ID, Kind: e.Kind, Approval: k.view(&e.Record)}); err != nil {
				return err
			}
		}
		if len(events) > 0 {
			continue
		}
		t := time.NewTimer(poll*3/4 + rand.N(poll/4))
		select {
		case <-ctx.Done():
		case <-wake:
		case <-t.C:
		}
		if t.Stop(); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// isEventID knows "", "0", and two numbers with a hyphen.
func isEventID(s string) bool {
	if s == "" || s == "0" {
		return true
	}
	ms, n, ok := strings.Cut(s, "-")
	return ok && isNumber(ms) && isNumber(n)
}

func isNumber(s string) bool {
	return s != "" && len(s) <= 18 && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

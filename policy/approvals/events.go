package approvals

import (
	"cmp"
	"context"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/signal"
)

// eventsPage bounds the events of one read.
const eventsPage = 100

// Events calls f for each event of a tenant's approvals, in order, until ctx ends or f fails, and returns
// that error. It begins after the event with the id after. "" is the current end of the stream, "0" the
// oldest stored event of about 10,000. The first event is EventsStart with the position. If events after
// the position were dropped, EventsLost follows.
//
// While the store is unavailable it waits. Other errors are ErrBusy, and a *call.Refusal for a malformed
// id.
func (k *Service) Events(ctx context.Context, tenant, after string, f func(Event) error) error {
	if !isEventID(after) {
		return &call.Refusal{
			Kind: call.InvalidArgument, Reason: "EVENT_INVALID", Message: "this is not the id of an approval event",
		}
	}
	wake, remove, ok := k.waiters.add(waitKey{tenant, ""})
	if !ok {
		return ErrBusy
	}
	defer remove()
	fd, leave := k.feeds.join(tenant)
	defer leave()
	for began := false; ; {
		begin := after
		events, last, err := fd.read(ctx, after, func() ([]Event, string, error) {
			return k.readEvents(ctx, tenant, after)
		})
		if err == nil {
			after = last
		}
		if err == nil && !began {
			began = true
			if err := f(Event{ID: cmp.Or(begin, last), Kind: EventsStart}); err != nil {
				return err
			}
		}
		for _, e := range events {
			if err := f(e); err != nil {
				return err
			}
		}
		if len(events) > 0 {
			continue
		}
		signal.Wait(ctx, wake, poll*3/4+k.opts.Jitter(poll/4))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// readEvents reads a page of a tenant's events.
func (k *Service) readEvents(ctx context.Context, tenant, after string) (all []Event, last string, err error) {
	events, last, err := k.store.Events(ctx, tenant, after, eventsPage)
	for i := range events {
		e := &events[i]
		all = append(all, Event{ID: e.ID, Kind: e.Kind, Approval: k.view(&e.Record)})
	}
	return all, last, err
}

// isEventID accepts "", "0", and two numbers with a hyphen.
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

package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy/approvals"
)

// ackTimeout is the time for the store to record a result.
const ackTimeout = 2 * time.Second

// deliver makes one attempt at an entry, and records its result. If the store does not record it, the lease
// ends and the entry is tried again.
func (d *Deliverer) deliver(ctx context.Context, e *Entry) {
	to := d.endpoint.Load()
	text, skip := d.format(ctx, to, e)
	ack, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTimeout+to.Timeout)
	defer cancel()
	switch {
	case skip == errUnavailable:
		d.requeue(ack, e, d.opts.BackoffBase)
		return
	case skip == errExpired && e.Attempts == 1 && !e.Retried:
		d.counters.late.Add(1)
		_ = d.store.Done(ack, e.ID)
		return
	case skip != "":
		d.deadLetter(ack, e, skip)
		return
	}
	if e.Attempts > 1 {
		d.counters.retried.Add(1)
	}
	r := to.send(ctx, e.ID, d.opts.Now(), text)
	switch {
	case r.delivered:
		d.counters.delivered.Add(1)
		_ = d.store.Done(ack, e.ID)
		if d.failing.Swap(false) {
			d.opts.Log.Info("webhook: delivery works again", "destination", d.Name())
		}
		if r.rejected > 0 {
			d.opts.Log.Warn("webhook: some recipients were rejected by the mail server", "destination", d.Name(),
				"rejected", r.rejected, "id", e.ID)
		}
		return
	case ctx.Err() != nil:
		d.requeue(ack, e, 0)
		return
	}
	d.counters.failed.Add(1)
	if !d.failing.Swap(true) {
		d.opts.Log.Warn("webhook: delivery fails", "destination", d.Name(), "why", r.reason, "id", e.ID)
	}
	if r.gone || e.Attempts >= to.Attempts {
		d.deadLetter(ack, e, r.reason)
		return
	}
	_ = d.store.Reschedule(ack, e, d.opts.backoff(e.Attempts, r.wait))
}

// requeue returns an entry that was not tried.
func (d *Deliverer) requeue(ctx context.Context, e *Entry, wait time.Duration) {
	e.Attempts--
	_ = d.store.Reschedule(ctx, e, wait)
}

func (d *Deliverer) deadLetter(ctx context.Context, e *Entry, why string) {
	dropped, err := d.store.DeadLetter(ctx, e, why, d.opts.Dead)
	if err == nil {
		d.counters.dead.Add(1)
		d.counters.dropped.Add(int64(dropped))
	}
}

// The reasons of sending nothing.
const (
	errUnavailable = "approvals are unavailable" // temporary
	errExpired     = "the approval can no longer be answered"
	errUnwanted    = "the destination no longer gets events of this tenant"
	unreadable     = "the event cannot be encoded, or is too long"
)

// format formats an entry's request, or returns the reason of sending nothing.
func (d *Deliverer) format(ctx context.Context, to *endpoint, e *Entry) (text []byte, skip string) {
	if !to.wants(e.Tenant) { // the configuration has changed since the event was collected
		return nil, errUnwanted
	}
	if e.Kind == NearLimit {
		if text, err := to.limitBody(&e.Event); err == nil {
			return text, ""
		}
		return nil, unreadable
	}
	a, err := d.approvals.Get(ctx, e.Tenant, e.Approval)
	var refusal *call.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Kind == call.NotFound:
		return nil, errExpired
	case err != nil:
		return nil, errUnavailable
	case e.Kind == approvals.EventCreated && a.State == approvals.Expired:
		return nil, errExpired
	}
	if text, err = to.body(&e.Event, &a, d.render); err != nil {
		return nil, unreadable
	}
	return text, ""
}

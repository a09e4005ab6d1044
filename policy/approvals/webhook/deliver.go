package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy/approvals"
)

// settling is the time for the store to record a result.
const settling = 2 * time.Second

// deliver makes one attempt at an entry, and records its result. If the store does not record it, the lease
// ends and the entry is tried again.
func (d *Deliverer) deliver(ctx context.Context, e *Entry) {
	to := d.endpoint.Load()
	text, why := d.compose(ctx, e)
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling+to.Timeout)
	defer cancel()
	switch {
	case why == notNow:
		d.giveBack(settle, e, d.opts.First)
		return
	case why == tooLate && e.Attempts == 1:
		d.counted.late.Add(1)
		_ = d.store.Done(settle, e.ID)
		return
	case why != "":
		d.bury(settle, e, why)
		return
	}
	if e.Attempts > 1 {
		d.counted.retried.Add(1)
	}
	r := to.post(ctx, e.ID, d.opts.Now(), text)
	switch {
	case r.delivered:
		d.counted.delivered.Add(1)
		_ = d.store.Done(settle, e.ID)
		if d.failing.Swap(false) {
			d.opts.Log.Info("webhook: delivery works again")
		}
		return
	case ctx.Err() != nil:
		d.giveBack(settle, e, 0)
		return
	}
	d.counted.failed.Add(1)
	if !d.failing.Swap(true) {
		d.opts.Log.Warn("webhook: delivery fails", "why", r.why, "id", e.ID)
	}
	if r.gone || e.Attempts >= to.Attempts {
		d.bury(settle, e, r.why)
		return
	}
	_ = d.store.Later(settle, e, d.opts.backoff(e.Attempts, r.wait))
}

// giveBack returns an entry that was not tried.
func (d *Deliverer) giveBack(ctx context.Context, e *Entry, wait time.Duration) {
	e.Attempts--
	_ = d.store.Later(ctx, e, wait)
}

func (d *Deliverer) bury(ctx context.Context, e *Entry, why string) {
	dropped, err := d.store.Bury(ctx, e, why, d.opts.Dead)
	if err == nil {
		d.counted.dead.Add(1)
		d.counted.dropped.Add(int64(dropped))
	}
}

// The reasons of sending nothing.
const (
	notNow     = "approvals are unavailable" // temporary
	tooLate    = "the approval can no longer be answered"
	unreadable = "the approval cannot be encoded as JSON, or is too long"
)

// compose formats an entry's request, or returns the reason of sending nothing.
func (d *Deliverer) compose(ctx context.Context, e *Entry) (text []byte, why string) {
	a, err := d.approvals.Get(ctx, e.Tenant, e.Approval)
	var refusal *call.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Kind == call.NotFound:
		return nil, tooLate
	case err != nil:
		return nil, notNow
	case e.Kind == approvals.EventCreated && a.State == approvals.Expired:
		return nil, tooLate
	}
	if text, err = body(&e.Event, &a, d.render); err != nil {
		return nil, unreadable
	}
	return text, ""
}

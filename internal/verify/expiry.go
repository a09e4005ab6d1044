package verify

import (
	"context"
	"fmt"
	"time"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// expiring are the approvals of the check of expiry: one without an answer, and one that is approved and not used.
type expiring struct {
	pending, approved *capgatepb.Approval
	err               error
}

// beginExpiry creates approvals, which expire during the other checks.
func (v *verifier) beginExpiry(ctx context.Context) (e expiring) {
	if e.pending, e.err = v.ask(ctx, attempt{session: "expiry, pending"}); e.err != nil || v.WaitExpiry <= 0 {
		return e // an approved approval would stay, as no call uses it
	}
	e.approved, e.err = v.approved(ctx, attempt{session: "expiry, approved"})
	return e
}

// endExpiry waits until the approvals have expired, and tries to use and answer them.
func (v *verifier) endExpiry(ctx context.Context, e expiring) (result, why string) {
	if e.err != nil {
		return NotChecked, e.err.Error()
	}
	end := e.pending.GetExpireTime().AsTime()
	if until := e.approved.GetExpireTime().AsTime(); until.After(end) {
		end = until
	}
	end = end.Add(time.Second) // the gateway's clock is rounded
	left := time.Until(end)
	if v.WaitExpiry <= 0 || left > v.WaitExpiry {
		return NotChecked, fmt.Sprintf("approvals expire in %v; --wait-expiry waits so long", left.Round(time.Second))
	}
	if v.Waiting != nil && left > 0 {
		v.Waiting(left)
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return NotChecked, "interrupted"
	}
	for session, a := range map[string]*capgatepb.Approval{"expiry, pending": e.pending,
		"expiry, approved": e.approved} {
		use := v.try(ctx, attempt{session: session, approval: a.GetId()})
		if result, why = use.refused("APPROVAL_EXPIRED", "APPROVAL_UNKNOWN"); result != Pass {
			return result, why + " (" + a.GetState() + " approval)"
		}
	}
	if _, err := v.approve(ctx, e.pending.GetId()); err == nil {
		return Fail, "the expired approval was answered"
	}
	return Pass, ""
}

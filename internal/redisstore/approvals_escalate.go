package redisstore

import (
	"context"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// Approvals that escalate are in the sorted set "escalate" of their tenant, by the time when they are due. The replica
// that removes an approval from it publishes the event, so that there is one.

var (
	dueScript      = newScript("approvals_due")
	escalateScript = newScript("approvals_escalate")
	postponeScript = newScript("approvals_postpone")
)

// Due implements approvals.DueStore.
func (a *ApprovalStore) Due(ctx context.Context, tenant string) (due []approvals.Record, next time.Duration,
	err error) {
	r := a.exec(ctx, dueScript, tenant)
	next = r.millis()
	for list := r.list(); list.more(); {
		f := list.fields()
		if record, err := a.record(tenant, f); err == nil {
			due = append(due, record)
		} else if id := f["id"]; id != "" { // a forged record is no approval
			_ = a.Postpone(ctx, tenant, id, -1)
		}
	}
	return due, next, r.end()
}

// Escalate implements approvals.DueStore.
func (a *ApprovalStore) Escalate(ctx context.Context, tenant, id string) (bool, error) {
	r := a.exec(ctx, escalateScript, tenant, id)
	return r.text() == "escalated", r.end()
}

// Postpone implements approvals.DueStore.
func (a *ApprovalStore) Postpone(ctx context.Context, tenant, id string, after time.Duration) error {
	return a.exec(ctx, postponeScript, tenant, id, after.Milliseconds()).end()
}

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
	reply, err := a.exec(ctx, dueScript, tenant)
	if err != nil {
		return nil, 0, err
	}
	if len(reply) != 2 {
		return nil, 0, errApprovals
	}
	list, _ := reply[1].([]any)
	for _, fields := range list {
		r, err := a.record(tenant, pairs(fields))
		if err == nil {
			due = append(due, r)
			continue
		}
		if id := pairs(fields)["id"]; id != "" { // a forged record is no approval
			_ = a.Postpone(ctx, tenant, id, -1)
		}
	}
	wait, _ := reply[0].(int64)
	return due, time.Duration(wait) * time.Millisecond, nil
}

// Escalate implements approvals.DueStore.
func (a *ApprovalStore) Escalate(ctx context.Context, tenant, id string) (bool, error) {
	reply, err := a.exec(ctx, escalateScript, tenant, id)
	return textAt(reply, 0) == "escalated", err
}

// Postpone implements approvals.DueStore.
func (a *ApprovalStore) Postpone(ctx context.Context, tenant, id string, after time.Duration) error {
	_, err := a.exec(ctx, postponeScript, tenant, id, after.Milliseconds())
	return err
}

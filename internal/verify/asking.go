package verify

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/status"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// note is stored with the answers.
const note = "capgate verify"

// ask makes a call that needs approval, and returns its pending approval.
func (v *verifier) ask(ctx context.Context, a attempt) (*capgatepb.Approval, error) {
	end := v.try(ctx, a)
	id := end.info["approval"]
	if end.reason != "APPROVAL_REQUIRED" || id == "" {
		return nil, errors.New(end.unclear())
	}
	found, err := v.get(ctx, id)
	if err != nil {
		return nil, err
	}
	v.asked = append(v.asked, found)
	return found, nil
}

func (v *verifier) get(ctx context.Context, id string) (*capgatepb.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := v.Approvals.GetApproval(ctx, &capgatepb.GetApprovalRequest{Tenant: v.Call.Tenant, ApprovalId: id})
	if err != nil {
		return nil, fmt.Errorf("the approval cannot be read: %s", status.Convert(err).Message())
	}
	return r.GetApproval(), nil
}

// approved returns a call's approval after it was approved.
func (v *verifier) approved(ctx context.Context, a attempt) (*capgatepb.Approval, error) {
	found, err := v.ask(ctx, a)
	if err != nil {
		return nil, err
	}
	if n := found.GetRequiredAnswers(); n > 1 {
		return nil, fmt.Errorf("the call needs the answers of %d approvers", n)
	}
	return v.approve(ctx, found.GetId())
}

func (v *verifier) approve(ctx context.Context, id string) (*capgatepb.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := v.Approvals.Approve(ctx, &capgatepb.ApproveRequest{Tenant: v.Call.Tenant, ApprovalId: id, By: note,
		Comment: note})
	if err != nil {
		return nil, fmt.Errorf("the operator cannot approve: %s", status.Convert(err).Message())
	}
	if state := r.GetApproval().GetState(); state != "approved" {
		return nil, errors.New("an approved call is " + state)
	}
	return r.GetApproval(), nil
}

func (v *verifier) deny(ctx context.Context, id, comment string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := v.Approvals.Deny(ctx, &capgatepb.DenyRequest{Tenant: v.Call.Tenant, ApprovalId: id, By: note,
		Comment: comment})
	if err != nil {
		return fmt.Errorf("the operator cannot deny: %s", status.Convert(err).Message())
	}
	return nil
}

// cleanUp denies what is still pending. Approved approvals that no check used end by themselves.
func (v *verifier) cleanUp(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, a := range v.asked {
		if now, err := v.get(ctx, a.GetId()); err == nil && now.GetState() == "pending" {
			_ = v.deny(ctx, a.GetId(), note+" has ended") // if it fails, the approval expires
		}
	}
}

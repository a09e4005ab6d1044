package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
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
	v.made = append(v.made, made{found, a})
	return found, nil
}

// made is an approval with the call that it is for.
type made struct {
	*capgatepb.Approval
	of attempt
}

func (v *verifier) get(ctx context.Context, id string) (*capgatepb.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := v.Approvals.GetApproval(ctx, &capgatepb.GetApprovalRequest{Tenant: v.Call.Tenant, ApprovalId: id})
	if err != nil {
		return nil, fmt.Errorf("the approval cannot be read: %w",
			status.Error(status.Code(err), status.Convert(err).Message()))
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

// cleanUp ends the approvals of the run: it denies pending ones, and makes the calls of approved ones. It returns the
// ids of the approvals that it could not end; they expire.
func (v *verifier) cleanUp(ctx context.Context) (left []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for _, m := range v.made {
		if !v.end(ctx, m) {
			left = append(left, m.GetId())
		}
	}
	return left
}

// end reports whether an approval has ended, and ends it if it has not.
func (v *verifier) end(ctx context.Context, m made) bool {
	now, err := v.get(ctx, m.GetId())
	switch state := now.GetState(); {
	case status.Code(err) == codes.NotFound: // deleted after its end
		return true
	case err != nil:
		return false
	case state == "pending":
		return v.deny(ctx, m.GetId(), note+" has ended") == nil || now.GetExpireTime().AsTime().Before(time.Now())
	case state == "approved":
		m.of.approval = m.GetId()
		end := v.try(ctx, m.of)
		return end.ran || slices.Contains([]string{"APPROVAL_EXPIRED", "APPROVAL_USED", "APPROVAL_UNKNOWN"}, end.reason)
	}
	return true
}

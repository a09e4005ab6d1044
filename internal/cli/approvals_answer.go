package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// answering answers one approval.
type answering func(ctx context.Context, id string) (*capgatepb.Approval, error)

func (c *approvalsCommand) approve(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	return c.answerAll(cmd, args, c.approving(conn), approvedText)
}

func (c *approvalsCommand) deny(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	return c.answerAll(cmd, args, c.denying(conn), deniedText)
}

// approving returns the function that approves a call with the flags of the command.
func (c *approvalsCommand) approving(conn grpc.ClientConnInterface) answering {
	return func(ctx context.Context, id string) (*capgatepb.Approval, error) {
		r, err := capgatepb.NewApprovalsClient(conn).Approve(ctx, &capgatepb.ApproveRequest{
			Tenant: c.filter.GetTenant(), ApprovalId: id, By: c.by, Comment: c.comment, Remember: c.remember,
			ValidFor: c.valid(),
		})
		return r.GetApproval(), err
	}
}

// denying returns the function that denies a call with the flags of the command.
func (c *approvalsCommand) denying(conn grpc.ClientConnInterface) answering {
	return func(ctx context.Context, id string) (*capgatepb.Approval, error) {
		r, err := capgatepb.NewApprovalsClient(conn).Deny(ctx, &capgatepb.DenyRequest{
			Tenant: c.filter.GetTenant(), ApprovalId: id, By: c.by, Comment: c.comment, Remember: c.remember,
			ValidFor: c.valid(),
		})
		return r.GetApproval(), err
	}
}

// answerAll answers approvals one after another, and prints each result. A failure does not end it.
func (c *approvalsCommand) answerAll(cmd *cobra.Command, ids []string, answer answering,
	text func(*capgatepb.Approval) string) error {
	if len(ids) == 1 {
		a, err := answerOne(cmd.Context(), ids[0], answer)
		return c.result(a, err, func(w io.Writer) { fmt.Fprint(w, text(a)) })
	}
	failed := 0
	for _, id := range ids {
		a, err := answerOne(cmd.Context(), id, answer)
		if err != nil {
			failed = max(failed, c.failed(cmd, id, err))
			continue
		}
		if err = c.record(a, func(w io.Writer) { fmt.Fprintf(w, "%s  %s", id, text(a)) }); err != nil {
			return err
		}
	}
	return quiet(failed)
}

// failed prints why an answer failed, and returns the exit status.
func (c *approvalsCommand) failed(cmd *cobra.Command, id string, err error) (status int) {
	fmt.Fprintf(c.err, "%s: %q: %s\n", cmd.CommandPath(), id, describeStatus(err))
	if away(err) {
		return exitUnreachable
	}
	return exitRefused
}

// answerOne bounds the time of one answer.
func answerOne(ctx context.Context, id string, answer answering) (*capgatepb.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return answer(ctx, id)
}

func approvedText(a *capgatepb.Approval) string {
	if a.GetState() == "pending" {
		return fmt.Sprintf("%d of %d have approved: %s\n", len(a.GetAnswers()), a.GetRequiredAnswers(), callOf(a))
	}
	return fmt.Sprintf("approved until %s: %s%s\n", when(a.GetExpireTime()), callOf(a), holds(a)) + covered(a)
}

func deniedText(a *capgatepb.Approval) string {
	return fmt.Sprintf("denied: %s%s\n", callOf(a), holds(a)) + covered(a)
}

package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/status"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// approveField is the only field of the form with which a caller approves its own call.
const approveField = "approve"

// formSchema is the schema of that form (2026-07-28, Elicitation, "Requested Schema").
const formSchema = `{"type":"object","properties":{"approve":{"type":"boolean","title":"Run this call",` +
	`"default":false}},"required":["approve"]}`

// form returns a form to approve a call; nil: the caller may not approve its own call, or not without a comment. The
// gateway decides on that as for any answer of the caller.
func (h *Handler) form(ctx context.Context, i *invocation, id string) *sdk.ElicitParams {
	got, err := h.approvals.GetApproval(ctx, &capgatepb.GetApprovalRequest{ApprovalId: id})
	a := got.GetApproval()
	if err != nil || !a.GetMayAnswer() || a.GetUser() == "" || a.GetRequiredAnswers() > 1 || a.GetReasonRequiredToApprove() ||
		a.GetMayNotApproveWhy() != "" {
		return nil
	}
	message := "Run " + i.req.GetToolName() + " of " + i.req.GetCapabilityId() + "?"
	before := " "
	if change := a.GetToolChange(); change != "" { // lines of the tool's own texts begin with + or -
		message += " Note that " + change
		before = "\n"
	}
	if a.GetArguments() != "" {
		message += before + "Its arguments are:\n" + a.GetArguments()
	}
	return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(formSchema)}
}

// answerForm approves a call whose user has approved it in the form. It is false if the user has not. An approval that
// was answered meanwhile stays as it is.
func (h *Handler) answerForm(ctx context.Context, i *invocation, id string) (approved bool, err error) {
	if i.answer == nil || i.answer.Action != "accept" || i.answer.Content[approveField] != true {
		return false, nil
	}
	_, err = h.approvals.Approve(ctx, &capgatepb.ApproveRequest{ApprovalId: id})
	if err != nil && ownInfo(err).GetReason() != "APPROVAL_NOT_PENDING" {
		return true, status.Convert(err).Err()
	}
	return true, nil
}

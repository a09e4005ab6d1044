package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/lib/strictjson"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Before 2026-07-28, a server requests input with a request of its own, on the stream of the call (2025-11-25,
// Elicitation). The client responds with a POST, which any replica may receive. The id of the request contains its
// subject, so that each replica can answer the approval. The call waits for that as for any answer, at its own
// replica.

const (
	elicitVersion = "2025-06-18" // first revision with forms
	modeVersion   = "2025-11-25" // first revision with other modes
)

// question is the content of such a request's id.
type question struct {
	Session  string `json:"s"`
	Approval string `json:"a,omitempty"` // empty means a question of a server
	Server   string `json:"q,omitempty"` // id of a server's question
	Expires  int64  `json:"e"`           // Unix time

	Kind questions.Kinds `json:"k,omitempty"` // of a server's question
}

// elicits reports whether the client of a call accepts requests on its stream.
func (x *exchange) elicits() bool {
	return x.read.version >= elicitVersion && x.session.Forms && x.hasStream()
}

// hasStream reports whether requests can be sent on the stream of a call.
func (x *exchange) hasStream() bool {
	m := x.read
	return !m.isStateless() && acceptedOf(x.r.Header).events &&
		(m.streams || x.memory != nil || isFeatureCall(m.method))
}

// serverRequest is a JSON-RPC request of the server.
type serverRequest struct {
	Version string `json:"jsonrpc"`
	ID      string `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// elicit asks the user of the client to approve the call, if its caller may approve it. The caller must call withdraw
// when the approval is answered, possibly by another person, or the call ends.
func (h *Handler) elicit(i *invocation, id string) (withdraw func()) {
	x := i.exchange
	form := h.form(x.r.Context(), i, id)
	if form == nil {
		return func() {}
	}
	if x.read.version < modeVersion {
		form.Mode = ""
	}
	q := i.seals.seal(sealedQuestion, question{Session: x.session.ID, Approval: id,
		Expires: time.Now().Add(stateTTL).Unix()})
	// The call waits even if this fails. A client that has disconnected cancels it.
	_ = x.events.send(serverRequest{"2.0", q, "elicitation/create", form})
	return func() {
		_ = x.events.send(notification{"2.0", "notifications/cancelled", sdk.CancelledParams{RequestID: q}})
	}
}

// answer is the response of a client to such a request.
type answer struct {
	action  string // empty means the response is an error
	approve bool
}

// readAnswer parses the result of a response.
func readAnswer(result strictjson.Value) *answer {
	if result.Kind() != strictjson.Object {
		return nil
	}
	a := new(answer)
	if action, ok := result.Get("action"); ok && action.Kind() == strictjson.String {
		a.action = string(action.Bytes())
	}
	if content, ok := result.Get("content"); ok && content.Kind() == strictjson.Object {
		approve, ok := content.Get(approveField)
		a.approve = ok && approve.Kind() == strictjson.True
	}
	switch a.action {
	case "accept", "decline", "cancel":
		return a
	}
	return nil
}

// answered handles the response of a client to a request of this or another replica.
func (h *Handler) answered(out http.ResponseWriter, r *http.Request, m *message) {
	if err := h.answerQuestion(r, m); err != nil {
		h.refuse(out, r, nil, err)
		return
	}
	out.WriteHeader(http.StatusAccepted)
}

// answerQuestion answers the approval of a response. The gateway authorizes it like any answer of the caller. Errors,
// such as of a client that cannot show a form now, leave the approval unanswered: the call continues to wait.
func (h *Handler) answerQuestion(r *http.Request, m *message) error {
	s, err := h.resume(r)
	if err != nil {
		return err
	}
	var of question
	var id string
	if m.isStateless() || s.ID == "" || json.Unmarshal(m.id, &id) != nil ||
		!h.sealsFor(r.Context(), r).open(sealedQuestion, id, &of) || of.Session != s.ID ||
		time.Now().Unix() > of.Expires {
		return refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "MCP_ANSWER_UNKNOWN",
			"the id of the response does not belong to a request to this session, or has expired")
	}
	switch {
	case of.Server != "":
		return h.answerServer(r, of, m)
	case m.failed:
		return nil
	case m.answer == nil:
		return invalid("the result of elicitation/create must have an action: accept, decline or cancel")
	}
	if err := h.answerApproval(r.Context(), of.Approval, m.answer); err != nil {
		return err
	}
	return nil
}

// answerApproval approves or denies a call on behalf of its caller.
func (h *Handler) answerApproval(ctx context.Context, id string, a *answer) (err error) {
	if a.action == "accept" && a.approve {
		_, err = h.approvals.Approve(ctx, &capgatepb.ApproveRequest{ApprovalId: id})
		return err
	}
	_, err = h.approvals.Deny(ctx, &capgatepb.DenyRequest{ApprovalId: id,
		Comment: "declined in the form of the MCP client"})
	return err
}

// approveField is the only field of the form for approving one's own call.
const approveField = "approve"

// formSchema is the schema of that form (2026-07-28, Elicitation, "Requested Schema").
const formSchema = `{"type":"object","properties":{"approve":{"type":"boolean","title":"Run this call",` +
	`"default":false}},"required":["approve"]}`

// form returns the form to approve a call; nil means the caller may not approve its own call, or only with a comment.
// The gateway authorizes it like any answer of the caller.
func (h *Handler) form(ctx context.Context, i *invocation, id string) *sdk.ElicitParams {
	got, err := h.approvals.GetApproval(ctx, &capgatepb.GetApprovalRequest{ApprovalId: id})
	a := got.GetApproval()
	if err != nil || !a.GetMayAnswer() || a.GetUser() == "" || a.GetRequiredAnswers() > 1 ||
		a.GetReasonRequiredToApprove() || a.GetMayNotApproveWhy() != "" {
		return nil
	}
	message := "Run " + i.req.GetToolName() + " of " + i.req.GetCapabilityId() + "?"
	before := " "
	if change := a.GetToolChange(); change != "" { // lines of the tool's own texts start with + or -
		message += " Note that " + change
		before = "\n"
	}
	if a.GetArguments() != "" {
		message += before + "Its arguments are:\n" + a.GetArguments()
	}
	return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(formSchema)}
}

// answerForm approves a call that its user has approved in the form. It returns false if the user has not. An approval
// that was answered meanwhile is unchanged.
func (h *Handler) answerForm(ctx context.Context, i *invocation, id string) (approved bool, err error) {
	if i.answer == nil || i.answer.Action != "accept" || i.answer.Content[approveField] != true {
		return false, nil
	}
	_, err = h.approvals.Approve(ctx, &capgatepb.ApproveRequest{ApprovalId: id})
	if err != nil && status.InfoOf(err).GetReason() != "APPROVAL_NOT_PENDING" {
		return true, grpcstatus.Convert(err).Err()
	}
	return true, nil
}

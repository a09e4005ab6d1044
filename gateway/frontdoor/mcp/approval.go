package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// approvalID is the metadata with the approval that a call redeems.
const approvalID = "x-approval-id"

// glance is the wait of a call whose client can show the page of the approval: an existing answer is found, and
// otherwise the page is shown soon.
const glance = time.Second

// pending is an approval that a call needs.
type pending struct{ id, link, expires string }

const needsPerson = "A person has to approve this call before it runs."

// text describes an unanswered approval.
func (p pending) text() string {
	text := needsPerson + " Approval: " + p.id + "."
	if p.link != "" {
		text += " It can be answered at " + p.link + " ."
	}
	return text
}

// pendingOf returns the approval for which a call was refused. ok is false for other errors.
func pendingOf(err error) (p pending, ok bool) {
	info := status.InfoOf(err)
	if info.GetReason() != "APPROVAL_REQUIRED" && info.GetReason() != "APPROVAL_PENDING" {
		return p, false
	}
	of := info.GetMetadata()
	p = pending{of["approval"], of["approval_link"], of["expires"]}
	return p, p.id != ""
}

// state is the state that a client sends back with the repeated call (2026-07-28, Multi Round-Trip Requests).
type state struct {
	Approval string `json:"a"`
	Call     string `json:"c"`           // digest of the call
	Form     bool   `json:"f,omitempty"` // the caller was asked to approve the call in a form
	Expires  int64  `json:"e"`           // Unix time

	// The call continues with these: the state of a server that requests input, with the kinds of its questions, and,
	// if an approval was required afterwards, the input.
	Server []byte          `json:"s,omitempty"`
	Asked  questions.Asked `json:"k,omitempty"`
	Input  []byte          `json:"i,omitempty"`
}

// stateTTL is the validity of a state: longer than that of an approval.
const stateTTL = time.Hour

// asking notifies the client of a call that it needs an approval. The gateway may use it after the call, when the
// memory of its invocation may belong to another one.
type asking struct {
	mu      sync.Mutex                 // held while the client is notified
	over    bool                       // the call has ended
	instead func() (sdk.Result, error) // result for the client if there is no answer yet; nil means a tool's error
	stop    []func()                   // ends the notifications; run in reverse order
}

// approve makes a call that may need an approval. The result or error is for a client that must act first; if both are
// nil, the response of the call is returned.
func (h *Handler) approve(ctx context.Context, i *invocation) (*docpb.InvokeResponse, sdk.Result, error) {
	if i.state != "" {
		if result, err := h.readState(i); result != nil || err != nil {
			return nil, result, err
		}
	} else if err := i.readInput(i.kinds.CheckAnswers); err != nil {
		return nil, nil, err
	}
	i.separateKeys()
	a := new(asking)
	asked := func(p call.Approval) time.Duration {
		return h.ask(ctx, i, a, pending{p.ID, p.Link, p.Expires.UTC().Format(time.RFC3339)}, p.Pending)
	}
	reply, err := h.invoke(request.WithCall(ctx, request.Call{IdempotencyKeys: i.keys, Feature: i.feature,
		Asking: call.Asking{Asked: asked, Toolset: i.changed}}), i)
	a.end()
	p, waits := pendingOf(err)
	if !waits {
		return reply, nil, err
	}
	if a.instead != nil {
		result, err := a.instead()
		return nil, result, err
	}
	if i.feature {
		return nil, nil, err
	}
	return nil, p.waiting(i.stateless), nil
}

// ask notifies the client of a call that needs an approval, in the first way that the client supports. It returns how
// long the call waits for the answer.
func (h *Handler) ask(ctx context.Context, i *invocation, a *asking, p pending, open bool) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return 0
	}
	first := !i.asked && i.fits()
	if first && i.tasks && !i.repeats() {
		if t := h.createTask(i, p); t != nil {
			a.instead = func() (sdk.Result, error) { return t, nil }
			return 0
		}
	}
	if i.urls && p.link != "" && i.fits() {
		a.instead = func() (sdk.Result, error) { return i.page(p) }
		if first {
			return glance
		}
	}
	switch held := h.settings.Load().ApprovalWait; {
	case !open:
		return held
	case first && i.forms:
		if form := h.form(i.exchange.r.Context(), i, p.id); form != nil {
			a.instead = func() (sdk.Result, error) {
				return i.inputRequired(form, state{Approval: p.id, Form: true}), nil
			}
			return 0
		}
	case first && i.elicits:
		a.stop = append(a.stop, h.elicit(i, p.id))
	}
	if i.progress != nil {
		a.stop = append(a.stop, i.told.repeat(ctx, h.cfg.Beat, p.text()))
	}
	return h.settings.Load().ApprovalWait
}

// end waits for a notification in progress, and ends them. Later calls of ask do nothing.
func (a *asking) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for _, stop := range slices.Backward(a.stop) {
		stop()
	}
}

const wasDeclined = "The approval of this call was declined. The call has not run."

// readState reads the state of a client that has shown its user a page or a form, and approves the call if the user
// has done so in the form. A result or an error ends the call.
func (h *Handler) readState(i *invocation) (sdk.Result, error) {
	var s state
	switch {
	case !i.seals.open(sealedState, i.state, &s) || s.Call != i.digest() || time.Now().Unix() > s.Expires:
		return nil, refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "MCP_STATE_INVALID",
			"requestState does not belong to this call and caller, or has expired; make the call without it")
	case s.Approval == "": // of a server
		i.answers.State = string(s.Server)
		return nil, i.readInput(s.Asked.CheckAnswers)
	case !s.Form && i.answer != nil && i.answer.Action != "accept":
		return i.declined()
	case s.Form:
		approved, err := h.answerForm(i.exchange.r.Context(), i, s.Approval)
		if err != nil {
			return nil, err
		}
		if !approved {
			return i.declined()
		}
	}
	i.asked, i.answers = true, questions.Answers{State: string(s.Server), Responses: s.Input}
	i.approvedBy(s.Approval)
	return nil, nil //nolint:nilnil // the call continues
}

// declined returns the result of a call whose approval was declined.
func (i *invocation) declined() (sdk.Result, error) {
	if i.feature {
		return nil, refused(http.StatusForbidden, status.RPCRefused, "APPROVAL_DENIED", wasDeclined)
	}
	return failed(wasDeclined, i.stateless), nil
}

// approvedBy makes a call redeem an approval.
func (i *invocation) approvedBy(approval string) {
	i.fields = append(i.fields[:len(i.fields):len(i.fields)], relay.Field{Name: approvalID, Value: approval})
}

// page returns the result for a client that can show the page of the approval.
func (i *invocation) page(p pending) (sdk.Result, error) {
	page := &sdk.ElicitParams{Mode: "url", Message: needsPerson, URL: p.link, ElicitationID: p.id}
	if !i.stateless {
		return nil, sdk.URLElicitationRequiredError([]*sdk.ElicitParams{page})
	}
	return i.inputRequired(page, state{Approval: p.id}), nil
}

// inputRequired requests input of the client's user, with a state for the repeated call.
func (i *invocation) inputRequired(of *sdk.ElicitParams, s state) *inputRequired {
	s.Server, s.Input = []byte(i.answers.State), i.answers.Responses
	return &inputRequired{ResultType: "input_required", Requests: sdk.InputRequestMap{inputApproval: of},
		State: i.sealed(s)}
}

// sealed returns a state of the call as text.
func (i *invocation) sealed(s state) string {
	s.Call, s.Expires = i.digest(), time.Now().Add(stateTTL).Unix()
	return i.seals.seal(sealedState, s)
}

// inputApproval is the key of the only requested input.
const inputApproval = "approval"

// inputRequired is the result of a call that requires input of the client first.
type inputRequired struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
	Requests   any    `json:"inputRequests,omitempty"`
	State      string `json:"requestState"`
}

// waiting returns the result of a call that was not approved in time.
func (p pending) waiting(stateless bool) *callResult {
	r := failed(p.text()+" There is no answer yet, and the call has not run. The same call with the same arguments "+
		"runs once it is approved.", stateless)
	// Structured content would have to match the schema of the tool's result.
	r.Meta = sdk.Meta{metaApproval: map[string]string{"id": p.id, "link": p.link, "expire_time": p.expires}}
	return r
}

// digest identifies the call, independently of the notation of its arguments.
func (i *invocation) digest() string {
	args := any(i.req.GetArgsJson()) // of too many values, in their own notation
	reader := strictjson.Get()
	defer reader.Release()
	if reader.Read(i.req.GetArgsJson(), strictjson.Options{Keep: true, Values: bodybudget.MaxValues}) == nil {
		args = reader.Root().Any()
	}
	text, _ := json.Marshal([]any{i.req.GetCapabilityId(), i.req.GetToolName(), i.req.GetSessionId(),
		i.req.GetThreadId(), args})
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

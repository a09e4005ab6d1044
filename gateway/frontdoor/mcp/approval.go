package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/lib/strictjson"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Metadata of a call that is about its approval.
const (
	approvalID   = "x-approval-id"
	approvalWait = "x-approval-wait" // seconds
)

// glance is how long a call waits for an answer whose client can show the page of the approval: an approval that is
// answered already counts, and another one is shown soon.
const glance = time.Second

// pending is an approval that a call needs.
type pending struct{ id, link, expires string }

const needsPerson = "A person has to approve this call before it runs."

// text tells of an approval that nobody has answered yet.
func (p pending) text() string {
	text := needsPerson + " Approval: " + p.id + "."
	if p.link != "" {
		text += " It can be answered at " + p.link + " ."
	}
	return text
}

// pendingOf returns the approval that a call was refused for; false: it was not.
func pendingOf(err error) (p pending, ok bool) {
	info := ownInfo(err)
	if info.GetReason() != "APPROVAL_REQUIRED" && info.GetReason() != "APPROVAL_PENDING" {
		return p, false
	}
	of := info.GetMetadata()
	p = pending{of["approval"], of["approval_link"], of["expires"]}
	return p, p.id != ""
}

// ownInfo returns the ErrorInfo of a refusal of the gateway; nil, which has no reason, of other errors.
func ownInfo(err error) *errdetails.ErrorInfo { return status.InfoOf(err) }

// state is what a client brings back with the call that was to be approved (2026-07-28, Multi Round-Trip Requests).
type state struct {
	Approval string `json:"a"`
	Call     string `json:"c"`           // digest of the call
	Form     bool   `json:"f,omitempty"` // its caller was asked to approve it in a form
	Expires  int64  `json:"e"`           // Unix time
}

// stateTTL is how long a state is good: longer than an approval.
const stateTTL = time.Hour

// approve makes a call that may need an approval. It returns a result where the client is to do something first.
func (h *Handler) approve(ctx context.Context, i *invocation) (reply *docpb.InvokeResponse, asked sdk.Result, err error) {
	if i.state != "" {
		return h.redeem(ctx, i)
	}
	if i.tasks {
		reply, err = h.try(ctx, i, approvalWait, "0")
		p, waits := pendingOf(err)
		if !waits {
			return reply, nil, err
		}
		if t := h.createTask(i, p); t != nil {
			return nil, t, nil
		}
	}
	if i.urls {
		reply, err = h.try(ctx, i, approvalWait, seconds(glance))
		if p, ok := pendingOf(err); !ok || p.link != "" {
			return h.asked(i, reply, err)
		}
	}
	i.urls = false // the client waits; there may be no page either
	if i.forms {
		reply, err = h.try(ctx, i, approvalWait, "0")
		p, waits := pendingOf(err)
		if !waits {
			return reply, nil, err
		}
		if form := h.form(i.exchange.r.Context(), i, p.id); form != nil {
			return nil, i.inputRequired(form, state{Approval: p.id, Form: true}), nil
		}
	}
	if i.elicits {
		reply, err = h.try(ctx, i, approvalWait, "0")
		p, waits := pendingOf(err)
		if !waits {
			return reply, nil, err
		}
		defer h.elicit(i, p.id)()
	}
	return h.hold(ctx, i)
}

// hold makes a call that waits for a person's answer. A client that asks for progress is told so meanwhile.
func (h *Handler) hold(ctx context.Context, i *invocation) (reply *docpb.InvokeResponse, asked sdk.Result, err error) {
	if i.progress != nil {
		reply, err = h.try(ctx, i, approvalWait, "0")
		p, waits := pendingOf(err)
		if !waits {
			return reply, nil, err
		}
		defer i.told.repeat(ctx, h.cfg.Beat, p.text())()
	}
	reply, err = h.try(ctx, i, approvalWait, seconds(h.settings.Load().ApprovalWait))
	return h.asked(i, reply, err)
}

const wasDeclined = "The approval of this call was declined. The call has not run."

// redeem makes the call of a client that has shown its user the page of the approval. If there is no answer yet, the
// call waits for it.
func (h *Handler) redeem(ctx context.Context, i *invocation) (reply *docpb.InvokeResponse, asked sdk.Result, err error) {
	var s state
	switch {
	case !i.seals.open(sealedState, i.state, &s) || s.Call != i.digest() || time.Now().Unix() > s.Expires:
		return nil, nil, refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "MCP_STATE_INVALID",
			"requestState is not that of this call and caller, or it has expired; make the call without it")
	case !s.Form && i.answer != nil && i.answer.Action != "accept":
		return nil, failed(wasDeclined, i.stateless), nil
	case s.Form:
		approved, err := h.answerForm(i.exchange.r.Context(), i, s.Approval)
		if err != nil {
			return nil, nil, err
		}
		if !approved {
			return nil, failed(wasDeclined, i.stateless), nil
		}
	}
	reply, err = h.try(ctx, i, approvalID, s.Approval)
	if ownInfo(err).GetReason() != "APPROVAL_PENDING" {
		return reply, nil, err
	}
	return h.hold(ctx, i)
}

// try makes the call, with metadata about its approval.
func (h *Handler) try(ctx context.Context, i *invocation, name, value string) (*docpb.InvokeResponse, error) {
	attempt := *i
	attempt.fields = append(i.fields[:len(i.fields):len(i.fields)], relay.Field{Name: name, Value: value})
	if i.progress != nil && len(i.keys) == 0 { // the response to a key is stored whole
		return h.stream(ctx, &attempt)
	}
	return h.unary(ctx, &attempt)
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// asked returns what a client is told of a call that a person has to approve first: with the page, if it shows one to
// its user; else as a tool's error, which a model reads.
func (h *Handler) asked(i *invocation, reply *docpb.InvokeResponse, err error) (*docpb.InvokeResponse, sdk.Result,
	error) {
	p, ok := pendingOf(err)
	if !ok {
		return reply, nil, err
	}
	if !i.urls || p.link == "" {
		return nil, p.waiting(i.stateless), nil
	}
	page := &sdk.ElicitParams{Mode: "url", Message: needsPerson, URL: p.link, ElicitationID: p.id}
	if !i.stateless {
		return nil, nil, sdk.URLElicitationRequiredError([]*sdk.ElicitParams{page})
	}
	return nil, i.inputRequired(page, state{Approval: p.id}), nil
}

// inputRequired asks the user of the client for something, with a state for the call that is to be approved.
func (i *invocation) inputRequired(of *sdk.ElicitParams, s state) *inputRequired {
	s.Call, s.Expires = i.digest(), time.Now().Add(stateTTL).Unix()
	return &inputRequired{ResultType: "input_required", Requests: sdk.InputRequestMap{inputApproval: of},
		State: i.seals.seal(sealedState, s)}
}

// inputApproval is the key of the only input that a call asks for.
const inputApproval = "approval"

// inputRequired is the result of a call that needs something of the client first.
type inputRequired struct {
	sdk.ResultBase
	ResultType string              `json:"resultType"`
	Requests   sdk.InputRequestMap `json:"inputRequests"`
	State      string              `json:"requestState"`
}

// waiting is the result of a call that nobody has approved in time.
func (p pending) waiting(stateless bool) *callResult {
	r := failed(p.text()+" There is no answer yet, and the call has not run. The same call with the same arguments runs "+
		"once it is approved.", stateless)
	// Structured content would have to match the schema of the tool's result.
	r.Meta = sdk.Meta{metaApproval: map[string]string{"id": p.id, "link": p.link, "expire_time": p.expires}}
	return r
}

// digest identifies the call, in whatever notation its arguments are.
func (i *invocation) digest() string {
	var args any
	reader := strictjson.Get()
	defer reader.Release()
	if reader.Read(i.req.GetArgsJson(), strictjson.Options{Keep: true}) == nil {
		args = reader.Root().Any()
	}
	text, _ := json.Marshal([]any{i.req.GetCapabilityId(), i.req.GetToolName(), i.req.GetSessionId(), i.req.GetThreadId(),
		args})
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

package mcp

import (
	"bytes"
	"cmp"
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/manifest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// invocation is a tool call for a request.
type invocation struct {
	about
	call     docpb.InvokeRequest // what req points to
	exchange *exchange
	name     string // name of the tool for the client
	req      *docpb.InvokeRequest
	told     *progress // sends progress notifications
	// token of progress notifications; nil means none are requested, or the client does not accept events
	progress  any
	stateless bool    // the request is of a revision without sessions
	results   Results // form of the tool's results
	rest      []byte  // fields of an MCP server's response other than its result_json; nil means none

	changed string            // name of the toolset that describes an earlier version of the tool; empty means none
	feature bool              // it is not the call of a tool
	tasks   bool              // the client accepts a task as result
	urls    bool              // the client can show URLs to its user
	forms   bool              // the client can show forms
	elicits bool              // the client can show forms requested on the stream of the call
	seals   seals             // for the caller
	kinds   questions.Kinds   // questions of servers that the client answers
	answers questions.Answers // with which the client repeats a call whose server requested input
	asked   bool              // an earlier attempt has requested an approval
	state   string            // of an earlier attempt; empty means this is the first
	answer  *sdk.ElicitResult // the user's response to the request of that attempt; nil means none
}

// callDirect serves a call without the SDK.
func (h *Handler) callDirect(ctx context.Context, _ string, req sdk.Request) (result sdk.Result, err error) {
	if req, ok := req.(*sdk.CallToolRequest); ok {
		result, err = h.call(ctx, req)
	}
	return encoded(ctx, result, err)
}

// call serves tools/call. The call passes the gateway's filters like any other.
func (h *Handler) call(ctx context.Context, req *sdk.CallToolRequest) (sdk.Result, error) {
	x := exchangeOf(ctx)
	if h.searches(x.r) {
		switch req.Params.Name {
		case searchTools:
			return h.search(ctx, x, req.Params)
		case callTool:
			p, err := inner(req.Params)
			if err != nil {
				return nil, err
			}
			req.Params = p
		}
	}
	i, err := h.invocationOf(ctx, x, req)
	switch {
	case isArgumentError(err):
		request.Rejected(ctx, codes.InvalidArgument, status.InfoOf(err).GetReason())
		return argumentError(err, x.read.isStateless()), nil
	case err != nil:
		return nil, err
	}
	problem.Called(ctx)
	reply, asked, err := h.approve(ctx, i)
	if asked != nil {
		return asked, nil
	}
	return h.answerOf(i, reply, err)
}

// answerOf returns the result of a call.
func (h *Handler) answerOf(i *invocation, reply *docpb.InvokeResponse, err error) (sdk.Result, error) {
	switch {
	case err == nil:
		return h.resultOf(i, reply)
	case status.InfoOf(err).GetReason() == capabilityUnknown:
		return nil, h.hidden(i.exchange.r.Context(), i.name, "")
	case h.hides(i, err):
		return nil, h.hidden(i.exchange.r.Context(), i.name, i.req.GetCapabilityId())
	case isArgumentError(err):
		return argumentError(fixedWrongly(i, err), i.stateless), nil
	case i.results.Statuses && status.InfoOf(err) == nil:
		return failedWith(err, i.stateless), nil
	}
	return nil, err
}

// hides reports whether an error would reveal the existence of a tool that the caller may not call. Callers know the
// tools that are listed for them, and receive the reason.
func (h *Handler) hides(i *invocation, err error) bool {
	switch status.InfoOf(err).GetReason() {
	case toolBlocked, "SCHEMA_UNKNOWN", toolUnknown:
		return !h.cfg.Catalog.Has(i.exchange.r.Context(), i.req.GetCapabilityId(), i.req.GetToolName())
	}
	return false
}

// resultOf returns the result of a call. Its copies are charged before they are made.
func (h *Handler) resultOf(i *invocation, reply *docpb.InvokeResponse) (sdk.Result, error) {
	x := i.exchange
	ctx, result := x.r.Context(), (*callResult)(nil)
	var err error
	if i.results.Relayed {
		if i.requestsInput() {
			return i.input()
		}
		if err = request.HoldResult(ctx, relayedCopies*(len(reply.GetResultJson())+len(i.rest))); err == nil {
			result, err = h.linked(i, relayed(reply, i.rest, i.stateless))
		}
	} else {
		result = resultIn(x.memory.emptyResult(), reply, i.stateless)
		result.more = append(result.more, h.links(i, reply.GetResultJson())...)
	}
	if err == nil {
		result = conforming(i, result)
		if x.memory == nil { // the SDK encodes it before it writes
			err = request.HoldResult(ctx, sdkCopies*result.size())
		}
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Copies of a result that exist at once, besides the message of the call.
const (
	relayedCopies = 2 // result of an MCP server, which is written unchanged
	sdkCopies     = 3 // encoded by the SDK
)

// invocationOf returns the call of a request.
func (h *Handler) invocationOf(ctx context.Context, x *exchange, req *sdk.CallToolRequest) (*invocation, error) {
	p := req.Params
	capability, tool, ok := h.toolNamed(ctx, p.Name, x.showsApps())
	if !ok || len(p.Name) > maxName {
		return nil, h.hidden(ctx, p.Name, "")
	}
	if h.cfg.Absent != nil && h.cfg.Absent(ctx, capability, tool) {
		return nil, h.hidden(ctx, p.Name, capability)
	}
	results := h.cfg.Catalog.Results(capability, tool)
	if results.Relayed && manifest.IsFeature(tool) { // their own requests check what they lead to
		return nil, h.hidden(ctx, p.Name, capability)
	}
	args := bytes.TrimSpace(p.Arguments)
	switch {
	case len(args) == 0 || string(args) == "null":
		args = []byte("{}")
	case args[0] != '{':
		return nil, invalidParams("arguments must be a JSON object")
	}
	args, changed, err := h.fill(ctx, x, capability, tool, args)
	if err != nil {
		return nil, err
	}
	i, err := h.newInvocation(x, capability, tool, args)
	if err != nil {
		return nil, err
	}
	i.name, i.tasks, i.results, i.changed = p.Name, h.takesTasks(x), results, changed
	h.readRound(i, req.Session, p.RequestState, p.InputResponses)
	return i, nil
}

var emptyObject = []byte("{}") //nolint:gochecknoglobals // a constant

// newInvocation returns the only call of a request, with its metadata.
func (h *Handler) newInvocation(x *exchange, capability, tool string, args []byte) (*invocation, error) {
	i := x.read.invocation()
	if err := i.readFields(x.r.Header, &x.read.meta); err != nil {
		return nil, err
	}
	i.exchange, i.stateless, i.req = x, x.read.isStateless(), &i.call
	i.req.ToolName, i.req.ArgsJson, i.req.ConfigJson = tool, args, emptyObject
	i.req.SessionId, i.req.CapabilityId, i.req.ThreadId = cmp.Or(i.session, x.session.ID), capability, i.thread
	return i, nil
}

// readRound reads the state and the responses of an earlier attempt, and determines how the client can be asked.
func (h *Handler) readRound(i *invocation, session *sdk.ServerSession, state string, responses sdk.InputResponseMap) {
	x := i.exchange
	i.state, i.answer = state, answerOf(responses)
	if x.read.streams {
		i.progress = x.read.meta.token
		i.told = &progress{session: session, token: i.progress}
	}
	i.urls = x.session.URLs
	if i.stateless {
		i.urls, i.forms = i.urls || x.read.meta.URLs, x.read.meta.Forms
	}
	i.elicits, i.kinds = x.elicits(), h.kinds(i)
	if i.urls || i.forms || i.elicits || i.state != "" || i.kinds != 0 {
		i.seals = h.sealsFor(x.r.Context(), x.r)
		i.urls, i.forms = i.urls && i.seals.on(), i.forms && i.seals.on()
	}
	if !i.seals.on() {
		i.kinds = 0
	}
}

// answerOf returns the response of a client's user to the page of an approval, or to a form; nil means none.
func answerOf(responses sdk.InputResponseMap) *sdk.ElicitResult {
	r, _ := responses[inputApproval].(*sdk.ElicitResult)
	return r
}

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	pollAfter   = time.Second            // default time between two requests for the state of a task
	pollLeast   = 200 * time.Millisecond // minimum of the time that the server may name
	pollMost    = 10 * time.Second
	maxUnpolled = 5       // consecutive requests about a task that may fail
	maxTaskID   = 1 << 10 // bytes
	// taskPrefix begins the state of a request for input that a task makes. The id of the task follows. The state of a
	// server cannot begin so.
	taskPrefix = "\x00task "
)

// task is a task of the server that runs a call. The call lasts as long as its task.
type task struct {
	v        *server
	key      sessionKey
	id       string
	old      bool            // a task of 2025-11-25, whose result and questions have a request of their own
	created  *taskState      // the state to handle before the first poll; nil means none
	answers  json.RawMessage // inputResponses to send; nil means none
	answered map[string]bool // keys of the questions that have answers
	ended    bool            // the server has ended it, or does not know it
	message  string          // last status message that was passed on
	steps    int             // status messages that were passed on
	poll     time.Duration
}

// taskState is a task as the server describes it, in either era.
type taskState struct {
	ID       string          `json:"taskId"`
	Status   string          `json:"status"`
	Message  string          `json:"statusMessage"`
	Old      json.RawMessage `json:"pollInterval"`
	Poll     json.RawMessage `json:"pollIntervalMs"`
	Result   json.RawMessage `json:"result"`
	Error    *jsonrpc.Error  `json:"error"`
	Requests json.RawMessage `json:"inputRequests"`
}

// interval returns the time between two polls, within the gateway's bounds.
func (s *taskState) interval() time.Duration {
	for _, text := range [...]json.RawMessage{s.Poll, s.Old} {
		var ms float64
		if len(text) > 0 && json.Unmarshal(text, &ms) == nil && ms > 0 {
			return max(time.Duration(min(ms, float64(pollMost.Milliseconds())))*time.Millisecond, pollLeast)
		}
	}
	return pollAfter
}

// result returns the result of a call from the server's response, which may be a task.
func (v *server) result(ctx context.Context, in joined, of attempted, raw []byte, tasked bool) (*toolResult, error) {
	var created struct {
		Task *taskState `json:"task"`
	}
	if tasked && strictjson.Unmarshal(raw, &created) != nil {
		return nil, invalid(callTool)
	}
	state := created.Task
	if state == nil { // a server may run the call at once
		result, err := of.op.read(raw, wantsRest(ctx))
		switch {
		case err != nil:
			return nil, invalid(of.op.method)
		case !result.task:
			return result, nil
		}
		state, tasked = new(taskState), false
		if strictjson.Unmarshal(raw, state) != nil {
			return nil, invalid(callTool)
		}
	}
	if state.ID == "" || len(state.ID) > maxTaskID || strings.ContainsFunc(state.ID, isUnprintable) {
		return nil, upstream.Unusable(call.Internal, fmt.Sprintf("the id of the MCP server's task is empty, has more "+
			"than %d bytes, or has characters other than printable ASCII", maxTaskID))
	}
	of.op.task = &task{v: v, key: in.key, id: state.ID, old: tasked, created: state}
	return of.op.task.follow(ctx, of)
}

// isUnprintable reports whether the header Mcp-Name cannot have a character as it is.
func isUnprintable(c rune) bool { return c < ' ' || c > '~' }

// invalid returns the error of a result of another form than the protocol's.
func invalid(method string) error {
	return upstream.Unusable(call.Internal, "the MCP server's result is not valid for "+method)
}

// resumeTask continues the task of a call with the answers to its questions.
func (v *server) resumeTask(ctx context.Context, in joined, of attempted, id string) (*toolResult, error) {
	t := of.op.task
	if t == nil || t.id != id { // the client repeats the call
		t = &task{v: v, id: id}
		of.op.task = t
	}
	t.key, t.answers = in.key, of.op.answers.Responses
	if t.answered == nil {
		t.answered = map[string]bool{}
	}
	var keys map[string]json.RawMessage
	if len(t.answers) > 0 && json.Unmarshal(t.answers, &keys) != nil {
		return nil, invalid(callTool)
	}
	for key := range keys {
		t.answered[key] = true
	}
	return t.follow(ctx, of)
}

// unanswered is the error of a request about a task that may be repeated.
type unanswered struct{ text string }

// Error implements error.
func (e *unanswered) Error() string { return e.text }

// follow polls the task until it has ended or requests input, and returns its result.
func (t *task) follow(ctx context.Context, of attempted) (*toolResult, error) {
	for failed := 0; ; {
		result, err := t.step(ctx, of)
		var later *unanswered
		switch {
		case errors.As(err, &later):
			if failed++; failed > maxUnpolled && ctx.Err() == nil {
				return nil, upstream.Lost("the MCP server does not report on the task of the call: " + later.text)
			}
		case result != nil || err != nil:
			return result, err
		default:
			failed = 0
		}
		wait := t.poll
		if failed > 0 {
			wait = max(wait, pollAfter)
		}
		if deadline, ok := ctx.Deadline(); ok { // a result that exists before it must not wait beyond it
			wait = min(wait, max(time.Until(deadline)/2, pollLeast))
		}
		if !backoff.Sleep(ctx, wait) {
			return nil, upstream.Ended(ctx.Err())
		}
	}
}

// step handles one state of the task. It returns neither a result nor an error if the task goes on.
func (t *task) step(ctx context.Context, of attempted) (*toolResult, error) {
	if len(t.answers) > 0 {
		if _, err := t.ask(ctx, of, updateTask); err != nil {
			return nil, err
		}
		t.answers = nil
	}
	state := t.created
	if t.created = nil; state == nil {
		raw, err := t.ask(ctx, of, getTask)
		if err != nil {
			return nil, err
		}
		state = new(taskState)
		if strictjson.Unmarshal(raw, state) != nil || state.ID != t.id {
			return nil, invalid(getTask)
		}
	}
	t.poll = state.interval()
	t.tell(ctx, of, state.Message)
	switch state.Status {
	case "working":
		return nil, nil
	case "input_required":
		if t.old {
			return t.fetch(ctx, of, false)
		}
		return t.request(state)
	case "completed", "failed":
		if t.old {
			return t.fetch(ctx, of, state.Status == "failed")
		}
		t.ended = true
		return ended(ctx, of, state)
	case "cancelled":
		t.ended = true
		return &toolResult{failure: strings.TrimSuffix("the MCP server has cancelled the task of the call: "+
			untrusted.Clip(state.Message, maxSaid), ": ")}, nil
	}
	return nil, invalid(getTask)
}

// ended returns the result of a call from a task that has ended (2026-07-28).
func ended(ctx context.Context, of attempted, state *taskState) (*toolResult, error) {
	if state.Status == "failed" {
		if state.Error == nil {
			return nil, invalid(getTask)
		}
		return nil, (&exchange{method: callTool}).errorOf(state.Error)
	}
	return final(ctx, of, state.Result)
}

// final returns the result of a call whose task has ended. A task has no further task, and requests no input after its
// end.
func final(ctx context.Context, of attempted, raw []byte) (*toolResult, error) {
	if len(raw) == 0 {
		return nil, invalid(callTool)
	}
	result, err := of.op.read(raw, wantsRest(ctx))
	if err != nil || result.task || result.input != nil {
		return nil, invalid(callTool)
	}
	return result, nil
}

// fetch requests the result of the task (2025-11-25). Until the task has ended, the server may ask on the stream of the
// request. failed is true if the task has failed, so that an error is that of the call.
func (t *task) fetch(ctx context.Context, of attempted, failed bool) (*toolResult, error) {
	raw, err := t.ask(ctx, of, taskResult)
	var own *ownError
	switch {
	case failed && errors.As(err, &own):
		t.ended = true
		return nil, own.status
	case err != nil:
		return nil, err
	}
	t.ended = true
	return final(ctx, of, raw)
}

// request returns the questions of the task that have no answer yet, as a request for input whose state is the task.
func (t *task) request(state *taskState) (*toolResult, error) {
	var all map[string]json.RawMessage
	if len(state.Requests) > 0 && strictjson.Unmarshal(state.Requests, &all) != nil {
		return nil, invalid(getTask)
	}
	for key := range all {
		if t.answered[key] { // the server has not processed the answer yet
			delete(all, key)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(all)
	return &toolResult{failure: needsInput, input: &input{raw: raw, State: taskPrefix + t.id, task: true}}, err
}

// tell passes the status message of the task on as progress, unless the server reports progress itself.
func (t *task) tell(ctx context.Context, of attempted, message string) {
	if of.told == nil || message == "" || message == t.message || of.asks.progressed.Load() {
		return
	}
	t.message = message
	t.steps++
	tell(ctx, of.told, struct {
		Progress int    `json:"progress"`
		Message  string `json:"message"`
	}{t.steps, untrusted.Clip(message, maxSaid)})
}

// drop cancels the task at the server if its call ends before it, unless the client has to answer its questions.
func (t *task) drop(ctx context.Context, of attempted, result *toolResult) {
	if t == nil || t.ended || result != nil && result.input != nil && result.rest != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asideTimeout)
	defer cancel()
	_, _ = t.ask(ctx, of, cancelTask)
}

// ownError is the JSON-RPC error of a request about a task, which may be that of the call.
type ownError struct {
	unanswered
	status error
}

// Unwrap makes the error one that may be repeated.
func (e *ownError) Unwrap() error { return &e.unanswered }

// ask sends a request about the task in the session of the call.
func (t *task) ask(ctx context.Context, of attempted, method string) ([]byte, error) {
	s, release, err := t.v.lease(t.key, of.user)
	if err != nil {
		return nil, &unanswered{grpcstatus.Convert(err).Message()}
	}
	defer release()
	o, err := t.v.ready(ctx, t.key, s)
	if err != nil {
		return nil, &unanswered{"no session can be opened"}
	}
	ex, end := begin(ctx, method, of.told)
	defer ex.settle()
	defer end()
	ex.asks, ex.task = of.asks, t.id
	if err = sendTask(ex.ctx, o.ClientSession, method, t, of.trace); err != nil && broken(err) {
		t.v.forgotten(ctx, s, o)
	}
	code, raw, refused := ex.answer()
	switch {
	case raw != nil && refused == nil:
		return raw, nil
	case ctx.Err() != nil:
		return nil, upstream.Ended(ctx.Err())
	case refused != nil && code != 0:
		return nil, unusable(refused)
	}
	return nil, t.failure(ex, code, method)
}

// failure returns the error of a request about the task without a result.
func (t *task) failure(ex *exchange, code int, method string) error {
	ex.mu.Lock()
	failure := ex.failure
	ex.mu.Unlock()
	switch {
	case failure == nil && (code == 0 || code/100 == 2):
		return &unanswered{"there is no response"}
	case failure == nil:
		return &unanswered{fmt.Sprintf("HTTP %d", code)}
	}
	err := (&exchange{method: callTool}).errorOf(failure)
	text := untrusted.Clip(grpcstatus.Convert(err).Message(), maxSaid)
	if failure.Code == jsonrpc.CodeInvalidParams && method != taskResult {
		t.ended = true
		return upstream.Lost("the MCP server does not know the task of the call: " + text)
	}
	return &ownError{unanswered{text}, err}
}

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	maxRounds = 10 // of one call, each of which requests input
	maxOpen   = 4  // unanswered requests of the server in one call; more are refused
	maxAsked  = 64 // requests of the server in one call; more are refused
)

// asker passes questions of the server in one call to the client of the call, and the answers to the server. It
// declares and passes only kinds that the client answers and the fleet allows.
type asker struct {
	of    *questions.Call // nil means that the client answers nothing
	kinds questions.Kinds
	apps  questions.Kinds // apps if the client shows them, otherwise 0
	alone bool            // it subscribes in a session of its own
	from  questions.Source
	logs  *tokenbucket.Bucket // of log messages; nil if of is nil

	progressed atomic.Bool // the server has reported progress

	mu    sync.Mutex
	open  int
	asked int
}

// asker returns that of a call with this metadata.
func (v *server) asker(id, tool string) *asker {
	a := &asker{of: v.all.Questions.Of(id), from: questions.Source{Capability: v.fleet.Capability, Tool: tool}}
	if a.of != nil {
		a.alone = a.of.Follower != nil && a.of.Follower.Alone
		a.kinds, a.from.Own = a.of.Kinds&v.settings.questions(), a.of.Own
		a.logs = newLogPace()
	}
	return a
}

// declared returns the kinds that a session of a call declares. A server with sessions asks on the stream of the call,
// which is of no use if the client answers only results.
func (a *asker) declared(old bool) questions.Kinds {
	if old && a.alone {
		return following
	}
	if old && a.kinds != 0 && a.of.Ask == nil {
		return a.apps
	}
	return a.kinds | a.apps
}

// admit counts a request of the server. It returns false if there are too many.
func (a *asker) admit() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == maxOpen || a.asked == maxAsked {
		return false
	}
	a.open++
	a.asked++
	return true
}

// count counts n questions of a result. It returns false if there are too many.
func (a *asker) count(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked+n > maxAsked {
		return false
	}
	a.asked += n
	return true
}

func (a *asker) answered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
}

// asked passes a request of the server to the client of its call, on the stream of which it came (2025-11-25,
// Streamable HTTP). It returns false if the SDK has to respond: to a ping, or with an error.
func (t *transport) asked(ex *exchange, m *message) bool {
	if ex == nil || ex.asks == nil || ex.asks.kinds == 0 || ex.asks.of.Ask == nil || len(m.ID) > maxQuestionID ||
		!questions.Is(*m.Method) {
		return false
	}
	q, err := questions.Read(*m.Method, m.Params, ex.asks.from)
	if err == nil && q.Kind&ex.asks.kinds == 0 {
		return false // not declared
	}
	if !ex.asks.admit() {
		return false
	}
	started := ex.answering(func() {
		defer ex.asks.answered()
		var result json.RawMessage
		if err == nil {
			result, err = ex.asks.of.Ask(ex.ctx, q)
		}
		t.reply(ex, m.ID, result, err)
	})
	if !started {
		ex.asks.answered()
	}
	return started
}

// maxQuestionID is the maximum length of the id of a server's request, in bytes of JSON.
const maxQuestionID = 256

// reply sends the answer to a request of the server. If that fails, the server continues to wait, as for a client that
// has disconnected.
func (t *transport) reply(ex *exchange, id, result json.RawMessage, failure error) {
	of := wire{Version: "2.0", ID: id, Result: result}
	if failure != nil {
		of.Result, of.Error = nil, errorOf(failure)
	}
	ex.mu.Lock()
	sent := ex.request
	ex.mu.Unlock()
	t.respond(ex.ctx, sent, of)
}

// respond sends a response to a request of the server, in the session of a request that was sent.
func (t *transport) respond(ctx context.Context, sent *http.Request, of wire) {
	text, err := plainjson.Marshal(of)
	if err != nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, asideTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, sent.URL.String(), bytes.NewReader(text))
	if err != nil {
		return
	}
	r.Header, r.Host = sent.Header.Clone(), sent.Host
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, name := range [...]string{"Mcp-Method", "Mcp-Name"} {
		r.Header.Del(name)
	}
	if err := t.identify(r, head{}); err != nil { // the answer is the caller's; the assertion may have expired
		return
	}
	resp, err := t.roundTrip(r)
	if err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody) // so that the connection can be used again
	_ = resp.Body.Close()
}

// errorOf returns the error for the server.
func errorOf(err error) *jsonrpc.Error {
	var of *questions.Refused
	if errors.As(err, &of) {
		return &jsonrpc.Error{Code: of.Code, Message: untrusted.Clip(of.Message, maxSaid)}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: untrusted.Clip(err.Error(), maxSaid)}
}

// input holds the questions in a result (2026-07-28, Multi Round-Trip Requests). As JSON it is for the front door.
type input struct {
	raw      json.RawMessage // inputRequests
	Requests json.RawMessage `json:"requests,omitempty"` // the same with attributed messages, for a client that repeats
	State    string          `json:"state,omitempty"`
	Kinds    questions.Asked `json:"kinds,omitempty"`

	all  map[string]*questions.Question
	task bool // the state is that of a task
}

// inputRequest is a question of such a result.
type inputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// read reads the questions. The error says why they cannot pass.
func (in *input) read(a *asker) error {
	var raw map[string]inputRequest
	if len(in.raw) > 0 && json.Unmarshal(in.raw, &raw) != nil {
		return errors.New("the tool requests input in a form that is not that of MCP")
	}
	if len(raw) > questions.MaxMany || len(in.State) > questions.MaxState ||
		strings.HasPrefix(in.State, taskPrefix) && !in.task {
		return errors.New("the tool requests too much input at once, or its requestState is not valid")
	}
	in.all, in.Kinds = make(map[string]*questions.Question, len(raw)), make(questions.Asked, len(raw))
	for key, one := range raw {
		q, err := questions.Read(one.Method, one.Params, a.from)
		switch {
		case err != nil:
			return errors.New("the tool requests input that cannot be passed on: " + err.Error())
		case q.Kind&a.kinds == 0:
			return errors.New(needsInput)
		case len(key) > questions.MaxKey:
			return errors.New("the tool requests input under a name that is too long")
		}
		in.all[key], in.Kinds[key], raw[key] = q, q.Kind, inputRequest{q.Method, q.Params}
	}
	if len(raw) == 0 || a.of.Ask != nil {
		return nil
	}
	var err error
	in.Requests, err = plainjson.Marshal(raw)
	return err
}

// rounds makes a call, and repeats it as long as its result requests input that the client provides on the stream of
// the call. Otherwise the request for input is the result.
func (a *asker) rounds(ctx context.Context, once func(*questions.Answers) (*toolResult, error)) (*toolResult, error) {
	answers := &questions.Answers{}
	if a.kinds != 0 {
		answers = &a.of.Answers
	}
	for round := 1; ; round++ {
		result, err := once(answers)
		if err != nil || result.input == nil || a.kinds == 0 {
			return result, err
		}
		if err := result.input.read(a); err != nil {
			return &toolResult{failure: err.Error()}, nil
		}
		if a.of.Ask == nil {
			text, err := plainjson.Marshal(rest{Input: result.input})
			return &toolResult{failure: needsInput, rest: text, input: result.input}, err // it is no result of the tool
		}
		if round == maxRounds || len(result.input.all) == 0 {
			return &toolResult{failure: "the tool requests input again and again, or to be called later"}, nil
		}
		if answers, err = a.collect(ctx, result.input); err != nil {
			return &toolResult{failure: "the client did not provide the input that the tool requests: " +
				untrusted.Clip(err.Error(), maxSaid)}, nil
		}
	}
}

// collect asks the client the questions of a result, at most maxOpen at once.
func (a *asker) collect(ctx context.Context, in *input) (*questions.Answers, error) {
	if !a.count(len(in.all)) {
		return nil, errors.New("the tool requests too much input in one call")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	var mu sync.Mutex
	responses := make(map[string]json.RawMessage, len(in.all))
	places := make(chan struct{}, maxOpen)
	for key, q := range in.all {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-places }()
			result, err := a.of.Ask(ctx, q)
			if err != nil {
				cancel(err) // the first one is the cause
				return
			}
			mu.Lock()
			defer mu.Unlock()
			responses[key] = result
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	text, err := plainjson.Marshal(responses)
	return &questions.Answers{State: in.State, Responses: text}, err
}

// inputResponse is a member of inputResponses with its own JSON, which the SDK would decode and encode again.
type inputResponse struct {
	*sdk.ElicitResult
	raw json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (r inputResponse) MarshalJSON() ([]byte, error) { return r.raw, nil }

// responsesOf returns inputResponses for the SDK.
func responsesOf(object json.RawMessage) sdk.InputResponseMap {
	var members map[string]json.RawMessage
	if len(object) == 0 || json.Unmarshal(object, &members) != nil {
		return nil
	}
	all := make(sdk.InputResponseMap, len(members))
	for key, raw := range members {
		all[key] = inputResponse{raw: raw}
	}
	return all
}

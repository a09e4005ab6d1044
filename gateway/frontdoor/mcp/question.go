package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/relay"
)

// Since 2026-07-28, questions of a server are the result of the call, and the client repeats the call with the answers.
// The server's state is sealed in the gateway's. Before, a question is a request on the stream of the call, and any
// replica may receive the response. Its id says which question it answers. Neither approves anything: a question of a
// server has no approval, and an approval has no server.

// kinds returns the kinds of questions that the client of a call answers in its revision.
func (h *Handler) kinds(i *invocation) questions.Kinds {
	x := i.exchange
	switch {
	case h.cfg.Questions == nil || !i.results.Relayed:
		return 0
	case i.stateless:
		return x.read.meta.kinds()
	case !x.hasStream():
		return 0
	}
	return x.kinds()
}

// kinds returns the kinds of questions that the client of a session answers in its revision.
func (x *exchange) kinds() questions.Kinds {
	all := x.session.kinds()
	if x.read.version < elicitVersion {
		all &^= questions.Forms
	}
	if x.read.version < modeVersion {
		all &^= questions.URLs
	}
	return all
}

// answerQuestions makes the server of a call able to ask the client, and to send it log messages. The caller must call
// leave when the call has ended.
func (h *Handler) answerQuestions(i *invocation) (leave func()) {
	i.declareApps()
	level := h.level(i)
	if i.kinds == 0 && level == 0 {
		return func() {}
	}
	own, at := h.settings.Load().Own, i.exchange.r.Host
	of := &questions.Call{Kinds: i.kinds, Answers: i.answers, Level: level,
		Own: func(u *url.URL) bool { return own.Has(u, at) }}
	c := &conversation{h: h, i: i, over: make(chan struct{})}
	if m := i.exchange.memory; m != nil {
		m.kept = true
	}
	if !i.stateless {
		of.Ask = c.ask
	}
	if level != 0 {
		of.Log = c.log
	}
	id, remove := h.cfg.Questions.Add(of)
	i.fields = append(i.fields[:len(i.fields):len(i.fields)], relay.Field{Name: questions.Metadata, Value: id})
	return func() {
		remove()
		c.end()
	}
}

// conversation sends messages of a server to the client of a call, on the stream of the call.
type conversation struct {
	h    *Handler
	i    *invocation
	mu   sync.Mutex // held while a message is sent
	open []string   // ids of requests that the client has to answer
	over chan struct{}
}

var errOver = errors.New("the call has ended")

// end waits for a message in progress, and withdraws open questions. Later ones are not sent.
func (c *conversation) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.open {
		c.cancel(id)
	}
	c.open = nil
	close(c.over)
}

// send sends a question, unless the call has ended.
func (c *conversation) send(q serverRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.over:
		return errOver
	default:
		c.open = append(c.open, q.ID)
		return c.i.exchange.events.send(q)
	}
}

// close removes an open question, and withdraws it unless it was answered.
func (c *conversation) close(id string, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.open, id)
	if at < 0 { // the call has ended
		return
	}
	c.open = slices.Delete(c.open, at, at+1)
	if !answered {
		c.cancel(id)
	}
}

// cancel withdraws a question. The caller must hold mu.
func (c *conversation) cancel(id string) {
	_ = c.i.exchange.events.send(notification{"2.0", "notifications/cancelled", sdk.CancelledParams{RequestID: id}})
}

// ask implements questions.Call.
func (c *conversation) ask(ctx context.Context, q *questions.Question) (json.RawMessage, error) {
	x := c.i.exchange
	release, err := request.HoldFor(x.r.Context(), noticeCopies*len(q.Params))
	if err != nil {
		return nil, errors.New("there is no memory for the question")
	}
	defer release()
	params := q.Params
	if q.Kind == questions.Forms && x.read.version < modeVersion {
		params = q.Without("mode")
	}
	id, answers, leave := c.h.waiting.add(q, c.i.seals)
	defer leave()
	sealed := c.i.seals.seal(sealedQuestion, question{Session: x.session.ID, Server: id, Kind: q.Kind,
		Expires: time.Now().Add(stateTTL).Unix()})
	answered := false
	defer func() { c.close(sealed, answered) }()
	if err := c.send(serverRequest{"2.0", sealed, q.Method, params}); err != nil {
		return nil, errors.New("the client has disconnected")
	}
	select {
	case a := <-answers:
		answered = true
		if a.Refused != nil {
			return nil, a.Refused
		}
		if err := request.HoldResult(x.r.Context(), relayedCopies*len(a.Result)); err != nil {
			return nil, errors.New("there is no memory for the answer")
		}
		return a.Result, nil
	case <-c.over:
		return nil, errOver
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// repeats reports whether the client repeats a call whose server requested input.
func (i *invocation) repeats() bool { return i.answers.State != "" || len(i.answers.Responses) > 0 }

// maxInput is the maximum size of the input that a state may have, in bytes.
const maxInput = 64 << 10

// fits reports whether the state of an approval can contain the input of the call.
func (i *invocation) fits() bool { return len(i.answers.Responses) <= maxInput }

// separateKeys gives a repeated call its own idempotency key: under that of the first call, the request for input is
// stored.
func (i *invocation) separateKeys() {
	if !i.repeats() || len(i.keys) == 0 {
		return
	}
	text, _ := json.Marshal([]any{i.keys, i.answers.State, string(i.answers.Responses)}) // strings can be encoded
	sum := sha256.Sum256(text)
	i.keys = []string{"mcp-input-" + base64.RawURLEncoding.EncodeToString(sum[:])}
}

// inputPrefix begins the rest of a server's response that requests input.
const inputPrefix = `{"input":`

// requestsInput reports whether a server requests input with its response, and the client can provide it.
func (i *invocation) requestsInput() bool {
	return i.stateless && i.kinds != 0 && bytes.HasPrefix(i.rest, []byte(inputPrefix))
}

// inputCopies is the number of copies of requested input that exist at once, besides the message of the call: while it
// is sealed and encoded.
const inputCopies = 8

// input returns the result with which a server requests input. Its copies are charged before they are made.
func (i *invocation) input() (sdk.Result, error) {
	if err := request.HoldResult(i.exchange.r.Context(), inputCopies*len(i.rest)); err != nil {
		return nil, err
	}
	var of struct {
		Input struct {
			Requests json.RawMessage `json:"requests"`
			State    string          `json:"state"`
			Kinds    questions.Asked `json:"kinds"`
		} `json:"input"`
	}
	if err := json.Unmarshal(i.rest, &of); err != nil {
		return nil, fmt.Errorf("input that a server requests: %w", err)
	}
	r := &inputRequired{ResultType: "input_required",
		State: i.sealed(state{Server: []byte(of.Input.State), Asked: of.Input.Kinds})}
	if len(r.State) > maxLong {
		return nil, errors.New("the state of a server that requests input is too long to be sealed")
	}
	if len(of.Input.Requests) > 0 {
		r.Requests = of.Input.Requests
	}
	return r, nil
}

// readInput reads the client's answers, with the check of the questions that they answer. Their copies are charged
// before they are made.
func (i *invocation) readInput(check func(json.RawMessage) (json.RawMessage, error)) error {
	inputs := i.exchange.read.inputs
	if i.kinds == 0 || len(inputs) == 0 {
		return nil
	}
	if err := request.HoldResult(i.exchange.r.Context(), inputCopies*len(inputs)); err != nil {
		return err
	}
	answers, err := check(inputs)
	if err != nil {
		return invalidParams(err.Error())
	}
	i.answers.Responses = answers
	return nil
}

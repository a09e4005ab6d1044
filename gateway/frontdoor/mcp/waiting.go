package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// waiting holds the questions of servers that wait for responses of clients at this replica. The questions of a call
// are bounded, so the size is bounded by the number of calls.
type waiting struct {
	mu  sync.Mutex
	all map[string]asked
}

type asked struct {
	check   func(result json.RawMessage) error // returns an error for what is not an answer
	seals   seals                              // for the caller, whose answers other replicas forward
	answers chan<- serverAnswer
}

// serverAnswer is the response of a client: a result, or an error.
type serverAnswer struct {
	Result  json.RawMessage    `json:"r,omitempty"`
	Refused *questions.Refused `json:"e,omitempty"`
}

// add adds a question. The caller must call leave when it does not wait any longer.
func (w *waiting) add(q *questions.Question, s seals) (id string, answers <-chan serverAnswer, leave func()) {
	id = rand.Text()
	to := make(chan serverAnswer, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[string]asked{}
	}
	w.all[id] = asked{q.Kind.CheckAnswer, s, to}
	return id, to, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, id)
	}
}

// answer answers a question once. found is false if none with this id waits. The error means that the response is not
// an answer, and the question continues to wait.
func (w *waiting) answer(id string, a serverAnswer) (found bool, _ error) {
	of, found := w.get(id)
	if !found {
		return false, nil
	}
	if a.Refused == nil {
		if err := of.check(a.Result); err != nil { // without the lock, which all calls share
			return true, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, found = w.all[id]; !found {
		return false, nil
	}
	delete(w.all, id)
	of.answers <- a
	return true, nil
}

// get returns a question; ok is false if none with this id waits.
func (w *waiting) get(id string) (of asked, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of, ok = w.all[id]
	return of, ok
}

// answerPrefix begins an answer in Config.Cancel. The names of cancelled requests begin with the id of a session.
const answerPrefix = "answer\n"

// maxRefusal is the maximum length of a client's error, in bytes.
const maxRefusal = 1 << 10

// maxForwarded is the maximum size of an answer that is forwarded to another replica, in bytes.
const maxForwarded = 256 << 10

// Every replica receives a forwarded message, so that those of a tenant are limited: a burst of 4 MiB, and 1 MiB per
// second. A message counts as forwardCost and its answer.
const (
	forwardBurst  = 4 << 10 // KiB
	forwardEvery  = time.Second / 1024
	forwardCost   = 4    // KiB
	maxForwarders = 4096 // tenants; the least recent one is dropped
)

// delay returns the time after which the tenant of a request may forward a message with an answer of this many bytes;
// 0: it may now.
func (h *Handler) delay(r *http.Request, answer int) time.Duration {
	return h.forwards.Of(h.cfg.Owner(r)).TakeAll(time.Now(), forwardCost+answer>>10)
}

// forward passes an answer to the replica that has the call, sealed.
func (h *Handler) forward(r *http.Request, id string, a serverAnswer) error {
	if len(a.Result) > maxForwarded {
		return unforwardable()
	}
	if wait := h.delay(r, len(a.Result)); wait > 0 {
		return limited("MCP_ANSWERS_LIMITED", wait, "too many answers to questions of tools were sent to another "+
			"replica than that of their call in a short time; the question is still open")
	}
	sealed := h.sealsFor(r.Context(), r).seal(sealedAnswer, a)
	if sealed == "" || len(sealed) > maxLong {
		return unforwardable()
	}
	ctx, done := context.WithTimeout(r.Context(), cancelPatience)
	defer done()
	if h.cfg.Cancel(ctx, answerPrefix+id+"\n"+sealed) != nil {
		return unavailable("MCP_ANSWER_LOST",
			"the answer could not be sent to the replica of its call; the question is still open")
	}
	return nil
}

// unforwardable returns the error for an answer that only the replica of the call could take.
func unforwardable() error {
	return refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "MCP_ANSWER_UNKNOWN",
		"the answer is too long for another replica than that of the call, or the call has ended")
}

// forwarded handles an answer that another replica received, if this one has its call.
func (h *Handler) forwarded(answer string) {
	id, sealed, _ := strings.Cut(answer, "\n")
	var a serverAnswer
	if of, ok := h.waiting.get(id); ok && of.seals.open(sealedAnswer, sealed, &a) {
		_, _ = h.waiting.answer(id, a) // what is no answer leaves the question open
	}
}

// answerServer passes the response of a client to the call that waits for it. A response to a question that was
// answered or withdrawn, or whose call has ended, has no effect.
func (h *Handler) answerServer(r *http.Request, q question, m *message) error {
	a := serverAnswer{Result: m.result}
	if m.failed {
		var of rpcError
		if json.Unmarshal(m.result, &of) != nil || of.Code == 0 {
			of.Code = jsonrpc.CodeInternalError
		}
		a = serverAnswer{Refused: &questions.Refused{Code: of.Code, Message: untrusted.Clip(of.Message, maxRefusal)}}
	}
	found, err := h.waiting.answer(q.Server, a)
	forwards := !found && h.cfg.Cancel != nil
	if forwards && a.Refused == nil {
		err = q.Kind.CheckAnswer(a.Result) // the other replica cannot respond to the client
	}
	switch {
	case err != nil:
		return invalid(err.Error())
	case forwards:
		return h.forward(r, q.Server, a)
	}
	return nil // a late answer is ignored, as after notifications/cancelled (2025-11-25, Cancellation)
}

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// exchange is one request of the protocol, as the transport sees it: what the SDK makes of the bytes loses some of
// them, such as the digits of long numbers.
type exchange struct {
	method string
	ctx    context.Context //nolint:containedctx // of the request, and of what is told of it
	cancel context.CancelCauseFunc
	told   chan<- []byte // gets what the server says of the progress; nil means it is not wanted

	mu      sync.Mutex
	id      string // of the request, as JSON; empty means it was not sent yet
	reached bool   // there was a connection, so the server may have the request
	status  int    // of the HTTP response; 0 means there was none
	result  []byte // of the response, as JSON
	failure *jsonrpc.Error
	named   bool  // failure names the request by its id
	refused error // the server's bytes, or why they did not come
}

type exchangeKey struct{}

// begin begins one request. end releases what the SDK holds for it, and is called when it is over.
func begin(ctx context.Context, method string, told chan<- []byte) (ex *exchange, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ex = &exchange{method: method, cancel: cancel, told: told}
	ex.ctx = context.WithValue(ctx, exchangeKey{}, ex)
	return ex, func() { cancel(context.Canceled) }
}

// exchangeFor returns the exchange that a request with this message is of; nil means none, as for the notification
// that ends a call.
func exchangeFor(r *http.Request, sent head) *exchange {
	ex, _ := r.Context().Value(exchangeKey{}).(*exchange)
	if ex == nil || sent.Method != ex.method || len(sent.ID) == 0 {
		return nil
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.id = string(sent.ID)
	return ex
}

// traced returns the request that tells the exchange of its connection.
func (ex *exchange) traced(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			ex.mu.Lock()
			defer ex.mu.Unlock()
			ex.reached = true
		},
	}))
}

// responded takes note of an HTTP response, or of its absence.
func (ex *exchange) responded(resp *http.Response, err error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if err != nil {
		ex.refused = err
		return
	}
	ex.status = resp.StatusCode
}

// fail ends the exchange, as the server's bytes are not the protocol's.
func (ex *exchange) fail(err error) {
	ex.mu.Lock()
	if ex.refused == nil {
		ex.refused = err
	}
	ex.mu.Unlock()
	ex.cancel(err)
}

// unsent reports whether the server provably did not get the request, and why.
func (ex *exchange) unsent() (bool, error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return !ex.reached, ex.refused
}

// refuse takes note of a response that is not the protocol's.
func (ex *exchange) refuse(err error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.refused == nil {
		ex.refused = err
	}
}

// answer is what came back.
func (ex *exchange) answer() (status int, result []byte, refused error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.status, ex.result, ex.refused
}

// matched reports whether the server has answered this very request with an error.
func (ex *exchange) matched() bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.failure != nil && ex.named
}

// code returns the code of the error of JSON-RPC; 0 means none.
func (ex *exchange) code() int64 {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.failure == nil {
		return 0
	}
	return ex.failure.Code
}

// lives reports whether the response is a sign of life: an error of JSON-RPC is one, a failure of HTTP is not.
func (ex *exchange) lives() bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.failure != nil && ex.named && (ex.status/100 == 2 || ex.status == http.StatusBadRequest)
}

// unanswered returns a response that ends the request for the SDK, and says nothing: what is wrong is in the exchange.
// From anything else that is wrong the SDK would end the session, and with it the calls of others.
func (ex *exchange) unanswered() []byte {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"none"}}`, ex.id,
		jsonrpc.CodeInternalError)
}

// response takes note of a response.
func (ex *exchange) response(m *message) error {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	switch {
	case string(m.ID) != ex.id && (len(m.Result) > 0 || !m.isUnnamed()):
		return errAnother
	case len(m.Result) > 0 && m.Error != nil:
		return violates("the MCP server's response has a result and an error")
	case len(m.Result) > 0:
		ex.result = m.Result
	case m.Error != nil:
		ex.failure, ex.named = m.Error, string(m.ID) == ex.id
	default:
		return violates("the MCP server's response has no result and no error")
	}
	return nil
}

// progress passes on what the server says of the progress, before anything that follows it. Numbers keep their digits.
func (ex *exchange) progress(params json.RawMessage) {
	var p struct {
		Progress json.Number `json:"progress"`
		Total    json.Number `json:"total,omitempty"`
		Message  string      `json:"message,omitempty"`
	}
	if ex.told == nil || json.Unmarshal(params, &p) != nil || p.Progress == "" {
		return
	}
	text, err := plainjson.Marshal(p)
	if err != nil {
		return
	}
	select {
	case ex.told <- text:
	case <-ex.ctx.Done():
	}
}

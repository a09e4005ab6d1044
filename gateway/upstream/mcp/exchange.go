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
	"github.com/capgate/capgate/internal/manifest"
)

// exchange tracks one request of the protocol in the transport: the SDK's decoding is lossy, such as for the digits of
// long numbers.
type exchange struct {
	method string
	ctx    context.Context //nolint:containedctx // of the request and its progress messages
	cancel context.CancelCauseFunc
	told   chan<- []byte // receives the server's progress messages; nil means they are not requested
	asks   *asker        // answers the server's requests; nil means the SDK refuses them
	task   string        // id of the task that the request is about; empty means none
	tasked bool          // the call is to be a task (2025-11-25)

	answers sync.WaitGroup // in progress; added to with mu held, and before over

	mu      sync.Mutex
	over    bool          // no further answer starts
	request *http.Request // as sent; nil means not sent yet
	id      string        // of the request, as JSON; empty means it was not sent yet
	reached bool          // there was a connection, so the server may have received the request
	status  int           // of the HTTP response; 0 means none
	result  []byte        // of the response, as JSON
	failure *jsonrpc.Error
	named   bool  // failure contains the id of the request
	refused error // invalid response, or why there was none
}

type exchangeKey struct{}

// begin starts one request. end must be called after it, and releases what the SDK holds for it.
func begin(ctx context.Context, method string, told chan<- []byte) (ex *exchange, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ex = &exchange{method: method, cancel: cancel, told: told}
	ex.ctx = context.WithValue(ctx, exchangeKey{}, ex)
	return ex, func() { cancel(context.Canceled) }
}

// exchangeFor returns the exchange of a request with this message; nil means none, such as for the notification that
// cancels a call.
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

// answering runs answer in a goroutine. It returns false if the exchange is over.
func (ex *exchange) answering(answer func()) bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.over {
		return false
	}
	ex.answers.Go(answer)
	return true
}

// settle ends the exchange for requests of the server, and waits for the answers in progress.
func (ex *exchange) settle() {
	ex.mu.Lock()
	ex.over = true
	ex.mu.Unlock()
	ex.answers.Wait()
}

// sending records the request, whose headers answers to the server's requests repeat.
func (ex *exchange) sending(r *http.Request) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.request = r
}

// isSent reports whether the request was sent.
func (ex *exchange) isSent() bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.request != nil
}

// traced returns the request with a trace that records its connection.
func (ex *exchange) traced(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			ex.mu.Lock()
			defer ex.mu.Unlock()
			ex.reached = true
		},
	}))
}

// responded records an HTTP response, or its error.
func (ex *exchange) responded(resp *http.Response, err error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if err != nil {
		ex.refused = err
		return
	}
	ex.status = resp.StatusCode
}

// fail ends the exchange because of an invalid response.
func (ex *exchange) fail(err error) {
	ex.mu.Lock()
	if ex.refused == nil {
		ex.refused = err
	}
	ex.mu.Unlock()
	ex.cancel(err)
}

// unsent reports whether the server provably did not receive the request, and why.
func (ex *exchange) unsent() (bool, error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return !ex.reached, ex.refused
}

// refuse records an invalid response.
func (ex *exchange) refuse(err error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.refused == nil {
		ex.refused = err
	}
}

// answer returns the response.
func (ex *exchange) answer() (status int, result []byte, refused error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.status, ex.result, ex.refused
}

// matched reports whether the server responded to this request with an error.
func (ex *exchange) matched() bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.failure != nil && ex.named
}

// code returns the code of the JSON-RPC error; 0 means none.
func (ex *exchange) code() int64 {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.failure == nil {
		return 0
	}
	return ex.failure.Code
}

// lives reports whether the response is a sign of life: a JSON-RPC error is one, an HTTP error is not.
func (ex *exchange) lives() bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.failure != nil && ex.named && (ex.status/100 == 2 || ex.status == http.StatusBadRequest)
}

// unanswered returns an empty response that ends the request for the SDK: the error is in the exchange. After any
// other error the SDK would end the session, and with it the calls of others.
func (ex *exchange) unanswered() []byte {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"none"}}`, ex.id,
		jsonrpc.CodeInternalError)
}

// opaque reports whether the SDK gets an empty response instead of the recorded one. It would decode bytes, and cache
// resources for other callers.
func (ex *exchange) opaque() bool {
	switch ex.method {
	case getPrompt, manifest.ReadResource, manifest.Complete:
		return true
	}
	return ex.task != ""
}

// isOfResource reports whether the request names one resource.
func (ex *exchange) isOfResource() bool {
	return ex.method == manifest.ReadResource || ex.method == manifest.Subscribe
}

// response records a response.
func (ex *exchange) response(m *message) error {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	switch {
	case string(m.ID) != ex.id && (len(m.Result) > 0 || !m.isUnnamed()):
		return errAnother
	case len(m.Result) > 0 && m.Error != nil:
		return violates("the MCP server's response has both a result and an error")
	case len(m.Result) > 0:
		ex.result = m.Result
	case m.Error != nil:
		ex.failure, ex.named = m.Error, string(m.ID) == ex.id
	default:
		return violates("the MCP server's response has neither a result nor an error")
	}
	return nil
}

// progress forwards the server's progress messages, before anything that follows them. Numbers keep their digits.
func (ex *exchange) progress(params json.RawMessage) {
	var p struct {
		Progress json.Number `json:"progress"`
		Total    json.Number `json:"total,omitempty"`
		Message  string      `json:"message,omitempty"`
	}
	if ex.told == nil || json.Unmarshal(params, &p) != nil || p.Progress == "" {
		return
	}
	if ex.asks != nil {
		ex.asks.progressed.Store(true)
	}
	tell(ex.ctx, ex.told, p)
}

// tell sends a progress message to the caller.
func tell(ctx context.Context, told chan<- []byte, message any) {
	text, err := plainjson.Marshal(message)
	if err != nil {
		return
	}
	select {
	case told <- text:
	case <-ctx.Done():
	}
}

package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// maxMessage of the fleets of hostile servers, in bytes.
const maxMessage = 64 << 10

// hostile answers a request of a method whose body has the text part; all others reach the server of the SDK.
func (r *remote) hostile(method, part string, answer func(w http.ResponseWriter, q *http.Request, id string)) {
	behind := *r.handler.Load()
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(body, &m) == nil && m.Method == method && strings.Contains(string(body), part) {
			answer(&counting{w, &r.sent}, q, string(m.ID))
			return
		}
		behind.ServeHTTP(w, q)
	}))
	r.handler.Store(&served)
}

// counting counts the bytes of a body.
type counting struct {
	http.ResponseWriter
	n *atomic.Int64
}

// Unwrap is for http.ResponseController.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// says answers with a body. ID in it is that of the request.
func says(code int, kind, body string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, id string) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "ID", id))
	}
}

// endless sends a text again and again, until the gateway has ended the request.
func endless(kind, before, text string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, q *http.Request, _ string) {
		w.Header().Set("Content-Type", kind)
		_, err := io.WriteString(w, before)
		for err == nil && q.Context().Err() == nil {
			_, err = io.WriteString(w, text)
		}
	}
}

// hostileAnswer is an answer of a server to a call, and the error that the caller gets.
type hostileAnswer struct {
	answer func(w http.ResponseWriter, q *http.Request, id string)
	code   codes.Code
	want   string // in the error
}

// hostileAnswers are all, by name. elsewhere is a URL to which some redirect.
func hostileAnswers(elsewhere string) map[string]hostileAnswer {
	const asJSON, asEvents = "application/json", "text/event-stream"
	result := func(of string) string { return `{"jsonrpc":"2.0","id":ID,"result":` + of + `}` }
	event := func(of string) string { return "event: message\ndata: " + of + "\n\n" }
	const fine = `{"content":[{"type":"text","text":"x"}]}`
	return map[string]hostileAnswer{
		"batch":         {says(200, asJSON, `[`+result(fine)+`]`), codes.Internal, "not JSON-RPC"},
		"batch event":   {says(200, asEvents, event(`[`+result(fine)+`]`)), codes.Internal, "not JSON-RPC"},
		"no JSON":       {says(200, asJSON, `<html>`), codes.Internal, "JSON"},
		"no JSON event": {says(200, asEvents, event(`<html>`)), codes.Internal, "JSON"},
		"half":          {says(200, asJSON, result(fine)[:40]), codes.Internal, "JSON"},
		"two documents": {says(200, asJSON, result(fine)+result(fine)), codes.Internal, "JSON"},
		"no UTF-8":      {says(200, asJSON, result("\"\xff\"")), codes.Internal, "UTF-8"},
		"compressed":    {says(200, asJSON, "\x1f\x8b\x08"), codes.Internal, "UTF-8"},
		"name twice": {says(200, asJSON, `{"jsonrpc":"2.0","id":ID,"id":ID,"result":`+fine+`}`), codes.Internal,
			"twice"},
		"name twice in an event": {says(200, asEvents, event(result(`{"content":[],"content":[]}`))),
			codes.Internal, "twice"},
		"deep": {says(200, asJSON, result(strings.Repeat("[", 101)+strings.Repeat("]", 101))),
			codes.Internal, "100"},
		"another id": {says(200, asJSON, strings.ReplaceAll(result(fine), "ID", "7777")), codes.Internal,
			"another request"},
		"id null": {says(200, asJSON, strings.ReplaceAll(result(fine), "ID", "null")), codes.Internal,
			"another request"},
		"no id": {says(200, asJSON, `{"jsonrpc":"2.0","result":`+fine+`}`), codes.Internal,
			"another request"},
		"another's event": {says(200, asEvents, event(strings.ReplaceAll(result(fine), "ID", "7777"))), codes.Internal,
			"another request"},
		"no result": {says(200, asJSON, `{"jsonrpc":"2.0","id":ID}`), codes.Internal, "neither a result nor an error"},
		"result and error": {says(200, asJSON, `{"jsonrpc":"2.0","id":ID,"result":`+fine+
			`,"error":{"code":1,"message":"x"}}`),
			codes.Internal, "a result and an error"},
		"result of a number": {says(200, asJSON, result(`7`)), codes.Internal, "not valid for tools/call"},
		"result of a list":   {says(200, asJSON, result(`[]`)), codes.Internal, "not valid for tools/call"},
		"content of a number": {says(200, asJSON, result(`{"content":7}`)), codes.Internal,
			"not valid for tools/call"},
		"a request": {says(200, asJSON, `{"jsonrpc":"2.0","id":ID,"method":"ping"}`), codes.Internal,
			"not a response"},
		"HTML":            {says(200, "text/html", result(fine)), codes.Internal, "text/html"},
		"no content type": {says(200, "", result(fine)), codes.Internal, "content type"},
		"nothing":         {says(200, asJSON, ``), codes.Unavailable, "without a result"},
		"accepted":        {says(202, asJSON, ``), codes.Unavailable, "without a result"},
		"no content":      {says(204, asJSON, ``), codes.Unavailable, "without a result"},
		"empty stream":    {says(200, asEvents, ``), codes.Unavailable, "without a result"},
		"stream that ends": {says(200, asEvents, "id: 1\n"+event(`{"jsonrpc":"2.0","method":"notifications/x"}`)),
			codes.Unavailable, "without a result"},
		"result of null": {says(200, asJSON, result(`null`)), codes.Internal, "not valid for tools/call"},
		"error": {says(200, asJSON, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"x"}}`),
			codes.InvalidArgument, "MCP error -32602: x"},
		"error of a rejection": {says(400, asJSON, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"x"}}`),
			codes.Unimplemented, "MCP error -32601: x"},
		"other error": {says(400, asJSON,
			`{"jsonrpc":"2.0","id":7777,"error":{"code":-32601,"message":"secret"}}`), codes.Internal, "HTTP 400"},
		"error of a number": {says(200, asJSON, `{"jsonrpc":"2.0","id":ID,"error":7}`), codes.Internal,
			"not JSON-RPC"},
		"unauthorized":    {says(401, asJSON, `secret`), codes.FailedPrecondition, "credential"},
		"forbidden":       {says(403, asJSON, `secret`), codes.FailedPrecondition, "credential"},
		"too many":        {says(429, asJSON, ``), codes.ResourceExhausted, "429"},
		"teapot":          {says(418, asJSON, `secret`), codes.Internal, "418"},
		"fails":           {says(500, asJSON, `secret`), codes.Unavailable, "500"},
		"fails with much": {endlessStatus(500), codes.Unavailable, "500"},
		"large": {endless(asJSON, `{"jsonrpc":"2.0","id":1,"result":"`, strings.Repeat("x", 1<<10)),
			codes.Internal, "larger than 65536"},
		"large event": {endless(asEvents, `data: "`, strings.Repeat("x", 1<<10)), codes.Internal,
			"larger than 65536"},
		"large in lines": {endless(asEvents, ``, "data: "+strings.Repeat("x", 100)+"\n"), codes.Internal,
			"larger than 65536"},
		"endless notices": {endless(asEvents, ``, event(`{"jsonrpc":"2.0","method":"notifications/x"}`)),
			codes.Internal, "larger than 262144"},
		"endless requests": {endless(asEvents, ``,
			event(`{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{}}`)),
			codes.Internal, "larger than 262144"},
		"endless comments": {endless(asEvents, ``, ": x\n\n"), codes.Internal, "larger than 262144"},
		"endless answers": {endless(asEvents, ``, event(`{"jsonrpc":"2.0","id":null,"result":{}}`)),
			codes.Internal, "another request"},
		"large headers": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("X-Large", strings.Repeat("x", 100<<10))
			w.WriteHeader(200)
		}, codes.Unavailable, ""},
		"moved":               {redirects(elsewhere, 301), codes.FailedPrecondition, "redirects"},
		"found":               {redirects(elsewhere, 302), codes.FailedPrecondition, "redirects"},
		"see":                 {redirects(elsewhere, 303), codes.FailedPrecondition, "redirects"},
		"moved with its body": {redirects(elsewhere, 307), codes.FailedPrecondition, "redirects"},
		"gone with its body":  {redirects(elsewhere, 308), codes.FailedPrecondition, "redirects"},
	}
}

func redirects(url string, code int) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, q *http.Request, _ string) { http.Redirect(w, q, url, code) }
}

// TestHostileAnswers: each answer of a server to a call has an error that says what is wrong, no more of it is read
// than the limits allow, no redirect is followed with a credential, and neither the next call nor one that runs all
// the time is affected.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			var followed atomic.Int32
			elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				followed.Add(1)
			}))
			check.Cleanup(t, elsewhere.Close)
			r := newRemote(t, old)
			var now hostileAnswer // of the only call
			r.hostile("tools/call", `"name":"hostile"`, func(w http.ResponseWriter, q *http.Request, id string) {
				now.answer(w, q, id)
			})
			w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
				settings(f).MaxMessage, f.Headers = maxMessage, map[string]string{"authorization": "Bearer ours"}
				of.Deadlines.Default, of.Deadlines.Max = 10*check.Patience, 10*check.Patience
			}, r.URL)
			waited := make(chan error, 1)
			go func() {
				_, err := w.Invoke(t.Context(), request("wait", `{}`))
				waited <- err
			}()
			check.Received(t, r.began, "the start of the call at the server")
			for name, c := range hostileAnswers(elsewhere.URL) {
				now = c
				r.sent.Store(0)
				got, err := w.Invoke(within(t), request("hostile", `{}`))
				if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.want) {
					t.Errorf("%s: %.200s %q, %.300v; want %v with %q", name, got.GetResultJson(), got.GetError(), err,
						c.code, c.want)
				}
				if text := fmt.Sprint(err); strings.Contains(text, "secret") || len(text) > 1000 {
					t.Errorf("%s: the error has what the server says: %.2000s", name, text)
				}
				const buffers = 8 << 20 // of the sockets
				if n := r.sent.Load(); n > 4*maxMessage+buffers {
					t.Errorf("%s: the server has sent %d bytes", name, n)
				}
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			}
			r.free()
			if err := check.Received(t, waited, "the end of the wait"); err != nil {
				t.Errorf("a call at the same time: %v", err)
			}
			if n := followed.Load(); n > 0 {
				t.Errorf("%d redirects were followed", n)
			}
		})
	}
}

// endlessStatus returns an endless body of a response that is no success.
func endlessStatus(code int) func(http.ResponseWriter, *http.Request, string) {
	body := endless("text/plain", "", strings.Repeat("x", 1<<10))
	return func(w http.ResponseWriter, q *http.Request, id string) {
		w.WriteHeader(code)
		body(w, q, id)
	}
}

// TestHostileNotices: a server that sends without end on the stream of its notices gets few answers, is read slowly,
// and still serves calls. What it says to a message that expects no response is no matter.
func TestHostileNotices(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		for name, text := range map[string]string{
			"changes":   `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
			"questions": `{"jsonrpc":"2.0","id":ID,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`,
		} {
			t.Run(name+" "+era, func(t *testing.T) {
				t.Parallel()
				r := newRemote(t, old)
				sent := make(chan int, 1)
				var answers atomic.Int32
				r.notices(func(w http.ResponseWriter, q *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					n := 0
					for ; n < 300 && q.Context().Err() == nil; n++ {
						_, _ = io.WriteString(w, "data: "+strings.ReplaceAll(text, "ID", strconv.Itoa(n+100))+"\n\n")
						_ = http.NewResponseController(w).Flush()
					}
					sent <- n
					<-q.Context().Done()
				}, func(w http.ResponseWriter, q *http.Request) {
					answers.Add(1)
					select { // no answer is accepted
					case <-q.Context().Done():
					case <-r.release:
					}
				})
				w := start(t, nil, r.URL)
				check.Received(t, sent, "the request")
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
				if n := answers.Load(); n > 16 {
					t.Errorf("%d answers", n)
				}
				r.free()
			})
		}
	}
}

// TestEndlessNotices: a server that sends lines without end on the stream of its notices is read slowly, whatever they
// are.
func TestEndlessNotices(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		for name, text := range map[string]string{"empty lines": "\n", "comments": ":\n\n",
			"other events": "event: x\n\n", "ids": "id: 1\n\n"} {
			t.Run(name+" "+era, func(t *testing.T) {
				t.Parallel()
				r := newRemote(t, old)
				blocked := make(chan bool, 100)
				r.notices(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					part, control := []byte(strings.Repeat(text, 1<<20/len(text))), http.NewResponseController(w)
					const most = 64 // MiB, of which the buffers of sockets take a few
					for range most {
						_ = control.SetWriteDeadline(time.Now().Add(time.Second))
						_, err := w.Write(part)
						if err = errors.Join(err, control.Flush()); err != nil {
							blocked <- errors.Is(err, os.ErrDeadlineExceeded)
							return
						}
					}
					blocked <- false
				}, answerWith(202, "", ""))
				w := start(t, nil, r.URL)
				if !check.Received(t, blocked, "the end of the stream") {
					t.Error("all was read, and fast")
				}
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			})
		}
	}
}

// notices has a server answer the request for the stream of its notices, and the client's answers to its requests.
func (r *remote) notices(stream, answer http.HandlerFunc) {
	behind := *r.handler.Load()
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		var m struct{ Method string }
		switch {
		case q.Method == http.MethodGet, json.Unmarshal(body, &m) == nil && m.Method == "subscriptions/listen":
			stream(w, q)
		case q.Method == http.MethodPost && m.Method == "":
			answer(w, q)
		default:
			behind.ServeHTTP(w, q)
		}
	}))
	r.handler.Store(&served)
}

// TestHostileLists: a list that does not end, or is none, has an error; tools that capgate cannot take are left out.
func TestHostileLists(t *testing.T) {
	t.Parallel()
	result := func(of string) string { return `{"jsonrpc":"2.0","id":ID,"result":{` + of + `}}` }
	tool := func(name string) string { return `{"name":"` + name + `","inputSchema":{"type":"object"}}` }
	var page atomic.Int64
	for name, c := range map[string]struct{ answer, want string }{
		"pages without end": {result(`"tools":[],"nextCursor":"PAGE"`), "more than 100 pages"},
		"page again":        {result(`"tools":[],"nextCursor":"a"`), "repeats a page"},
		"too many tools": {result(`"tools":[` + strings.TrimSuffix(strings.Repeat(tool("a")+",", 1001), ",") + `]`),
			"more than 1000 tools"},
		"tools of a number": {result(`"tools":7`), "not valid for tools/list"},
		"a name twice":      {result(`"tools":[],"tools":[]`), "twice"},
		"a batch":           {"[" + result(`"tools":[]`) + "]", "not JSON-RPC"},
		"some": {result(`"tools":[7,{},` + tool("a b") + `,` + tool("good") + `,` + tool("good") +
			`,{"name":"odd","inputSchema":[]}]`), ""},
	} {
		for era, old := range eras {
			t.Run(name+" "+era, func(t *testing.T) {
				t.Parallel()
				r := newRemote(t, old)
				r.hostile("tools/list", "", func(w http.ResponseWriter, q *http.Request, id string) {
					text := strings.ReplaceAll(c.answer, "PAGE", strconv.FormatInt(page.Add(1), 10))
					says(200, "application/json", text)(w, q, id)
				})
				w := start(t, nil, r.URL)
				got, err := w.Invoke(within(t), request(upstream.DiscoveryTool, `{}`))
				switch {
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%s, %v; want %s", got.GetResultJson(), err, c.want)
				case c.want == "" && (strings.Count(string(got.GetResultJson()), `"name"`) != 1 ||
					!strings.Contains(string(got.GetResultJson()), `"good"`)):
					t.Errorf("%s, %v", got.GetResultJson(), err)
				}
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			})
		}
	}
}

package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/check"
)

// fine is a result of tools/call.
const fine = `{"content":[{"type":"text","text":"x"}]}`

// handle has f answer requests of a server before all others. It returns whether it has.
func (r *remote) handle(f func(w http.ResponseWriter, q *http.Request, body string) bool) {
	behind := *r.handler.Load()
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		if !f(w, q, string(body)) {
			behind.ServeHTTP(w, q)
		}
	}))
	r.handler.Store(&served)
}

// recorded is a response that a test changes before it is sent.
type recorded struct {
	http.ResponseWriter
	status int
	text   strings.Builder
}

func (w *recorded) WriteHeader(status int)         { w.status = status }
func (w *recorded) Write(text []byte) (int, error) { return w.text.Write(text) }
func (w *recorded) send(change func(string) string) {
	w.Header().Del("Content-Length")
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
	_, _ = io.WriteString(w.ResponseWriter, change(w.text.String()))
}

// rewrite changes the bodies of all responses.
func (r *remote) rewrite(change func(string) string) {
	behind := *r.handler.Load()
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodPost || q.Header.Get("Mcp-Method") == "subscriptions/listen" {
			behind.ServeHTTP(w, q) // streams
			return
		}
		out := &recorded{ResponseWriter: w}
		behind.ServeHTTP(out, q)
		out.send(change)
	}))
	r.handler.Store(&served)
}

// TestServersThatWriteIDsOtherwise: an answer whose id is the request's as a text, or with a fraction, is its answer,
// also of the requests that begin a session.
func TestServersThatWriteIDsOtherwise(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]string{"text": `"id":"$1"`, "fraction": `"id":$1.0`, "exponent": `"id":$1e0`} {
		for era, old := range eras {
			t.Run(name+" "+era, func(t *testing.T) {
				t.Parallel()
				r := newRemote(t, old)
				r.rewrite(func(text string) string {
					for n := range 20 {
						text = strings.Replace(text, fmt.Sprintf(`"id":%d,`, n),
							strings.ReplaceAll(form, "$1", fmt.Sprint(n))+",", 1)
					}
					return text
				})
				w := start(t, nil, r.URL)
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
				w.wantResult(t, request("echo", `{"text":"y"}`), `"y"`)
			})
		}
	}
}

// TestServersThatAnswerAnotherRequest: a server that answers no request of a session's beginning is an error at once.
func TestServersThatAnswerAnotherRequest(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"application/json", "text/event-stream"} {
		r := newRemote(t, true)
		r.hostile("initialize", "", func(w http.ResponseWriter, q *http.Request, id string) {
			text := `{"jsonrpc":"2.0","id":"other","result":{}}`
			if kind != "application/json" {
				text = "data: " + text + "\n\n"
			}
			says(200, kind, text)(w, q, id)
			_ = http.NewResponseController(w).Flush()
			if kind != "application/json" {
				<-q.Context().Done()
			}
		})
		w := start(t, nil, r.URL)
		if _, err := w.Invoke(within(t), request("echo", `{}`)); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestLineEndsOfEvents: the lines of events end with a line feed, a carriage return, or both. An event is passed on
// before the byte that follows it.
func TestLineEndsOfEvents(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"LF": "\n", "CR": "\r", "CRLF": "\r\n"} {
		for era, old := range eras {
			t.Run(name+" "+era, func(t *testing.T) {
				t.Parallel()
				r := newRemote(t, old)
				r.hostile("tools/call", "", func(w http.ResponseWriter, q *http.Request, id string) {
					w.Header().Set("Content-Type", "text/event-stream")
					lines := []string{": a comment", "", "event: message",
						`data: {"jsonrpc":"2.0","method":"notifications/x"}`, "", "id", "event: message",
						`data: {"jsonrpc":"2.0","id":` + id + `,`, `data: "result":` + fine + `}`, ""}
					_, _ = io.WriteString(w, strings.Join(lines, end)+end)
					_ = http.NewResponseController(w).Flush()
					<-q.Context().Done()
				})
				w := start(t, nil, r.URL)
				w.wantResult(t, request("echo", `{}`), `"x"`)
			})
		}
	}
}

// TestServersThatKnowNoDiscover: a server that does not answer server/discover gets initialize.
func TestServersThatKnowNoDiscover(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"silence":      func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
		"no bytes":     answerWith(200, "application/json", ""),
		"accepted":     answerWith(202, "", ""),
		"a page":       answerWith(200, "text/html", "<html>"),
		"no event":     answerWith(200, "text/event-stream", ""),
		"a lost event": answerWith(200, "text/event-stream", ": x\n\n"),
		"an open stream": func(w http.ResponseWriter, q *http.Request) {
			answerWith(200, "text/event-stream", ": x\n\n")(w, q)
			_ = http.NewResponseController(w).Flush()
			<-q.Context().Done()
		},
		"another's":     answerWith(200, "application/json", `{"jsonrpc":"2.0","id":77,"result":{}}`),
		"no connection": abort,
		"no request": answerWith(200, "application/json",
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}`),
		"teapot":  answerWith(418, "", ""),
		"failure": answerWith(500, "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, false) // also has the older revisions
			r.handle(func(w http.ResponseWriter, q *http.Request, body string) bool {
				if strings.Contains(body, `"server/discover"`) {
					answer(w, q)
					return true
				}
				return false
			})
			w := start(t, nil, r.URL)
			w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			if r.inits.Load() == 0 {
				t.Error("no session was opened")
			}
		})
	}
}

// TestReasonsOfRejectedVersions: the state of a server, and the error of a call, have what it says of the revisions
// that it supports.
func TestReasonsOfRejectedVersions(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"in the message": `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Unsupported protocol version ` +
			`(supported versions: 2025-03-26, 2024-11-05, 2024-10-07)"},"id":null}`,
		"in the data": `{"jsonrpc":"2.0","error":{"code":-32022,"message":"Bad Request","data":{"supported":` +
			`["2025-03-26","2024-11-05","2024-10-07"]}},"id":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, true)
			rejected := http.Handler(answerWith(400, "application/json", text))
			r.handler.Store(&rejected)
			const want = "2025-03-26, 2024-11-05, 2024-10-07"
			servers := mcp.Open(upstream.Options{})
			check.Cleanup(t, servers.Close)
			servers.Set([]upstream.Fleet{{Capability: id, Backends: []string{r.URL}, Protocol: &mcp.Settings{}}})
			result := servers.Probe(id).(health.Direct).ProbeAddr(within(t), r.URL)
			if result.OK || !strings.Contains(result.Reason, want) {
				t.Errorf("%+v", result)
			}
			r = newRemote(t, true) // rejects calls alone
			r.hostile("tools/call", "", says(400, "application/json", text))
			w := start(t, nil, r.URL)
			if _, err := w.Invoke(within(t), request("echo", `{}`)); !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestServersThatArePolled: a server that ends its stream again and again, and has its client poll, gets as many
// requests for the rest as it takes until it has the result.
func TestServersThatArePolled(t *testing.T) {
	t.Parallel()
	const polls = 5
	for name, priming := range map[string]string{"one id": "", "ids": "id: N\n", "an id again": "id: 1\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, true)
			var call, wrong atomic.Pointer[string]
			var n atomic.Int32
			r.handle(func(w http.ResponseWriter, q *http.Request, body string) bool {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				last := q.Header.Get("Last-Event-Id")
				switch {
				case q.Method == http.MethodGet && last != "":
					k := n.Add(1)
					if want := strings.ReplaceAll(strings.TrimSpace(strings.TrimPrefix(priming, "id: ")), "N",
						fmt.Sprint(k)); last != want && last != "1" {
						wrong.Store(&last)
					}
					w.Header().Set("Content-Type", "text/event-stream")
					if k == polls {
						_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", *call.Load(),
							fine)
						return true
					}
					_, _ = fmt.Fprintf(w, "%sretry: 1\ndata:\n\n", strings.ReplaceAll(priming, "N", fmt.Sprint(k+1)))
					return true
				case json.Unmarshal([]byte(body), &m) == nil && m.Method == "tools/call":
					id := string(m.ID)
					call.Store(&id)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, "id: 1\nretry: 1\ndata:\n\n")
					return true
				}
				return false
			})
			w := start(t, nil, r.URL)
			w.wantResult(t, request("echo", `{}`), `"x"`)
			if got := n.Load(); got != polls || wrong.Load() != nil {
				t.Errorf("%d polls, %v", got, wrong.Load())
			}
		})
	}
}

// TestSlowRedirects: the reason of a server that redirects slowly is the redirect, also where the probe has no time for
// another request.
func TestSlowRedirects(t *testing.T) {
	t.Parallel()
	r := newRemote(t, false)
	var n atomic.Int32
	ctx, end := context.WithCancel(within(t)) // of the probe
	defer end()
	r.handle(func(w http.ResponseWriter, q *http.Request, _ string) bool {
		if n.Add(1) == 1 {
			http.Redirect(w, q, "https://example.com/mcp/", http.StatusPermanentRedirect)
		} else {
			end()
			<-q.Context().Done()
		}
		return true
	})
	servers := mcp.Open(upstream.Options{})
	check.Cleanup(t, servers.Close)
	servers.Set([]upstream.Fleet{{Capability: id, Backends: []string{r.URL}, Protocol: &mcp.Settings{}}})
	result := servers.Probe(id).(health.Direct).ProbeAddr(ctx, r.URL)
	if !strings.HasPrefix(result.Reason, "the MCP server redirects to https://example.com/mcp/: HTTP 308") {
		t.Errorf("%+v", result)
	}
}

// TestQuestionsKeepTheirIDs: a server that asks its client for something gets the answer with the very id of its
// question.
func TestQuestionsKeepTheirIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`7`, `9007199254740993`, `-9223372036854775808`, `123456789012345678901`, `"q<1>"`,
		`1.5`} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, true)
			answered := make(chan string, 1)
			r.notices(func(w http.ResponseWriter, q *http.Request) {
				answerWith(200, "text/event-stream", `data: {"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`+"\n\n")(w, q)
				_ = http.NewResponseController(w).Flush()
				<-q.Context().Done()
			}, func(w http.ResponseWriter, q *http.Request) {
				body, _ := io.ReadAll(q.Body)
				select {
				case answered <- string(body):
				default:
				}
				w.WriteHeader(http.StatusAccepted)
			})
			start(t, nil, r.URL)
			if got := check.Received(t, answered, "the answer"); !strings.Contains(got, `"id":`+id+`,`) ||
				!strings.Contains(got, `"result":{}`) {
				t.Errorf("%s", got)
			}
		})
	}
}

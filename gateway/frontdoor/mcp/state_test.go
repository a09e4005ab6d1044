package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// asking is a gateway that asks about each call without an approval, and its front door.
type asking struct {
	grpc.ClientConnInterface
	mcp.Catalog
	*mcp.Handler
	t       *testing.T
	caller  string
	sent    []string      // metadata of the last call, sorted
	wait    time.Duration // for a person, of the last call that needs one
	ran     int
	taken   int          // pieces of an answer
	changes atomic.Int64 // of the tools
	answers []string     // to approvals: the methods that were called
}

// allowed returns the answer to requests whose caller may do everything.
func allowed(*http.Request) error { return nil }

func newAsking(t *testing.T) *asking {
	t.Helper()
	a := &asking{t: t, caller: "acme"}
	a.Handler = mcp.New(mcp.Config{Conn: a, Unary: a.call, Catalog: a,
		Authenticate: allowed, Invokes: allowed, Lists: allowed,
		Keys:   func(context.Context) [][]byte { return [][]byte{make([]byte, aead.KeyBytes)} },
		Tenant: func(*http.Request) string { return a.caller }, Caller: func(*http.Request) string { return a.caller }})
	return a
}

func (*asking) Undiscovered(context.Context, string) error { return nil }

func (*asking) Known(string, string) bool { return true }

func (*asking) Sees(context.Context, string) bool { return true }

func (*asking) Has(context.Context, string, string) bool { return true }

func (*asking) Results(string, string) (none mcp.Results) { return none }

func (*asking) Schema(context.Context, string, string) []byte { return nil }

func (a *asking) Tools(_ context.Context, _ string, visit func(string, []mcp.Tool) bool) error {
	tools := make([]mcp.Tool, 60)
	for i := range tools {
		tools[i] = mcp.Tool{Name: fmt.Sprint("echo-", i), Description: fmt.Sprint("version ", a.changes.Load())}
	}
	visit("caps", tools)
	return nil
}

func (a *asking) call(ctx context.Context, q *relay.Request, _ []byte, r *relay.Response) {
	a.sent = nil
	for _, f := range q.Header {
		a.sent = append(a.sent, f.Name+": "+f.Value)
	}
	slices.Sort(a.sent)
	var refusal error
	if slices.ContainsFunc(q.Header, func(f relay.Field) bool { return f.Name == "x-approval-id" }) {
		a.ran++
		r.Message, refusal = proto.Marshal(&docpb.InvokeResponse{ResultJson: []byte(`{}`)})
	} else {
		a.wait = request.CallOf(ctx).Asked(call.Approval{ID: "apr_1", Link: "https://capgate.example.com/inbox",
			Pending: true})
		asked := grpcstatus.New(codes.FailedPrecondition, "a person has to approve it")
		asked, refusal = asked.WithDetails(&errdetails.ErrorInfo{Domain: status.Domain, Reason: "APPROVAL_REQUIRED",
			Metadata: map[string]string{"approval": "apr_1", "approval_link": "https://capgate.example.com/inbox"}})
		r.Status = relay.Status{Code: uint32(codes.FailedPrecondition), Message: asked.Message()}
		r.Status.Details, _ = proto.Marshal(asked.Proto())
	}
	if refusal != nil {
		a.t.Error(refusal)
	}
}

// send sends a message. header are names and values in turn.
func (a *asking) send(body string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, a.request(http.MethodPost, body, header...))
	return w
}

// invoke calls a tool in the newest revision. more are further params.
func (a *asking) invoke(args, more string, header ...string) string {
	return a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+
		`{"elicitation":{"url":{}}}},"name":"caps__echo","arguments":`+args+more+`}}`, append([]string{
		"Mcp-Name", "caps__echo", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call"}, header...)...).
		Body.String()
}

// state returns the state that a call is asked to bring back.
func (a *asking) state() string {
	a.t.Helper()
	var asked struct{ Result struct{ RequestState string } }
	if text := a.invoke(`{"a":1,"b":2}`, ``); json.Unmarshal([]byte(text), &asked) != nil ||
		asked.Result.RequestState == "" {
		a.t.Fatal(text)
	}
	return asked.Result.RequestState
}

func with(state string) string { return `,"requestState":"` + state + `"` }

// forged changes one character of a sealed text.
func forged(text string) string {
	other := "A"
	if text[40] == 'A' {
		other = "B"
	}
	return text[:40] + other + text[41:]
}

// TestStateExpires: what a client brings back with its call is good for an hour.
func TestStateExpires(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		a := newAsking(t)
		state := with(a.state())
		<-time.After(time.Hour - time.Second)
		if text := a.invoke(`{"b":2,"a":1}`, state); a.ran != 1 || !strings.Contains(text, `"resultType":"complete"`) {
			t.Errorf("in time: %s; a %+v", text, a)
		}
		<-time.After(2 * time.Second)
		if text := a.invoke(`{"a":1,"b":2}`, state); a.ran != 1 || !strings.Contains(text, "MCP_STATE_INVALID") {
			t.Errorf("too late: %s; a %+v", text, a)
		}
	})
}

// TestStateIsBound: a state is good for its call and its caller alone, and not as a session. A session is no state.
func TestStateIsBound(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	begun := a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` +
		`{"elicitation":{"url":{}}},"clientInfo":{"name":"x","version":"1"}}}`)
	state, session := a.state(), begun.Header().Get("Mcp-Session-Id")
	for name, c := range map[string]struct{ caller, args, state string }{
		"forged":             {"acme", `{"a":1,"b":2}`, forged(state)},
		"cut":                {"acme", `{"a":1,"b":2}`, state[:20]},
		"long":               {"acme", `{"a":1,"b":2}`, strings.Repeat("A", 3000)},
		"of other arguments": {"acme", `{"a":1,"b":3}`, state},
		"of another caller":  {"globex", `{"a":1,"b":2}`, state},
		"a session":          {"acme", `{"a":1,"b":2}`, session},
	} {
		a.caller = c.caller
		if text := a.invoke(c.args, with(c.state)); !strings.Contains(text, "MCP_STATE_INVALID") {
			t.Errorf("%s: %s", name, text)
		}
	}
	for name, c := range map[string]struct {
		caller, session string
		known           bool
	}{
		"its own":           {"acme", session, true},
		"forged":            {"acme", forged(session), false},
		"of another caller": {"globex", session, false},
		"a state":           {"acme", state, false},
	} {
		a.caller = c.caller
		w := a.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", c.session, "Mcp-Protocol-Version",
			"2025-11-25")
		if known := w.Code == http.StatusOK; known != c.known || !known && (w.Code != http.StatusNotFound ||
			!strings.Contains(w.Body.String(), "MCP_SESSION_UNKNOWN")) {
			t.Errorf("a session, %s: %d %s; known %+v", name, w.Code, w.Body, known)
		}
	}
	a.caller = "acme"
	text := a.invoke(`{"a":1,"b":2}`, with(state)+`,"inputResponses":{"approval":{"action":"decline"}}`)
	if !strings.Contains(text, `"isError":true`) || a.ran > 0 {
		t.Errorf("declined: %s, %d calls", text, a.ran)
	}
}

// TestNoCredentialReachesACall: a call gets what is about it, and no credential and no other header of the request.
func TestNoCredentialReachesACall(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	a.invoke(`{}`, ``, "Authorization", "Bearer secret", "X-Api-Key", "secret", "Cookie", "a=b", "X-Capgate-Tenant",
		"other", "X-User-Id", "ann", "X-Approval-Id", "apr_2", "X-Other", "x")
	if got := strings.Join(a.sent, ", "); got != "x-user-id: ann" || a.wait != time.Second {
		t.Errorf("the call has %s, and waits %v", got, a.wait)
	}
	a.sent = nil
	text := a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","_meta":{`+
		`"dev.capgate/session-id":"a\nb"}}}`, "Mcp-Protocol-Version", "2025-11-25").Body.String()
	if !strings.Contains(text, "INVALID_HEADER") || a.sent != nil {
		t.Errorf("a line break in metadata: %s, %v", text, a.sent)
	}
}

// TestSearchPerTenant: the callers of some tenants get two tools in place of all, with bounded answers.
func TestSearchPerTenant(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	a.Set(mcp.Settings{Search: []string{"acme"}})
	listed := func(method, params string) int {
		text := a.send(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, "Mcp-Protocol-Version",
			"2025-11-25").Body.String()
		return strings.Count(text, `"inputSchema"`)
	}
	for tenant, want := range map[string]int{"acme": 2, "globex": 60} {
		a.caller = tenant
		if n := listed("tools/list", `{}`); n != want {
			t.Errorf("%s: %d tools", tenant, n)
		}
	}
	a.caller = "acme"
	for arguments, want := range map[string]int{
		`{"query":"echo"}`: 10, `{"query":"echo","limit":50}`: 50, `{"query":"echo","limit":51}`: 0, `{"query":""}`: 0,
		`{"query":"echo","limit":0}`: 0, `{"query":"` + strings.Repeat("echo ", 300) + `"}`: 0,
	} {
		if n := listed("tools/call", `{"name":"search_tools","arguments":`+arguments+`}`); n != want {
			t.Errorf("%.40s: %d tools", arguments, n)
		}
	}
}

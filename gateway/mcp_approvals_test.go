package gateway_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
)

// askingMCP returns options of a gateway whose fleet requires approval for each call and whose replicas share
// keys.
func askingMCP(d *desk, wait time.Duration) func(*gatewaytest.Options) {
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Ask}})
	return func(o *gatewaytest.Options) {
		o.Policy = policy.Options{Source: tools, Timeout: check.Patience}
		o.Approver = d
		o.MCP.Settings.ApprovalWait = wait
		o.MCP.Keys = gatewaytest.SharedKeys
	}
}

// approveNext approves the next approval.
func (d *desk) approveNext(t *testing.T) (id string) {
	t.Helper()
	id = d.next(t, approvals.EventCreated).ID
	d.approve(t, id)
	return id
}

// approve approves an approval.
func (d *desk) approve(t *testing.T, id string) {
	t.Helper()
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{By: "eve"}); err != nil {
		t.Error(err)
	}
}

// callEcho calls the tool.
func callEcho(t *testing.T, s *sdk.ClientSession, text string) (*sdk.CallToolResult, error) {
	t.Helper()
	return s.CallTool(t.Context(), echo(text))
}

func echo(text string) *sdk.CallToolParams {
	return &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo, Arguments: map[string]any{"a": text}}
}

// TestMCPHeldCalls: the call of a client without declared capabilities is held until it is approved.
func TestMCPHeldCalls(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := startMCP(t, askingMCP(d, check.Patience))
	for _, revision := range revisions {
		s := f.session(t, revision, nil)
		var calling sync.WaitGroup
		calling.Go(func() {
			r, err := s.CallTool(t.Context(), echo(revision))
			if err != nil || r.IsError || !strings.Contains(textOf(t, r), revision) {
				t.Errorf("%s: %+v %v", revision, r, err)
			}
		})
		d.approveNext(t)
		check.Ended(t, &calling, "the end of the call")
	}
	if n := len(f.capability.Seen()); n != len(revisions) {
		t.Errorf("%d calls", n)
	}
}

// TestMCPHeldProgress: a client that requests progress is notified repeatedly that its call waits, and then
// gets the pieces of the result. The numbers increase.
func TestMCPHeldProgress(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := startMCP(t, askingMCP(d, check.Patience), func(o *gatewaytest.Options) { o.MCP.Beat = time.Millisecond })
	for _, revision := range revisions {
		notices, last := make(chan *sdk.ProgressNotificationParams, 10_000), -1.0
		s := f.session(t, revision, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
			n *sdk.ProgressNotificationClientRequest) {
			notices <- n.Params
		}})
		next := func() string {
			n := check.Received(t, notices, "a notice of progress")
			if n.Progress <= last {
				t.Errorf("%s: %v after %v", revision, n.Progress, last)
			}
			last = n.Progress
			return n.Message
		}
		p := echo(revision)
		p.SetProgressToken("p")
		var calling sync.WaitGroup
		calling.Go(func() {
			r, err := s.CallTool(t.Context(), p)
			if err != nil || r.IsError || !strings.Contains(textOf(t, r), revision) {
				t.Errorf("%s: %+v %v", revision, r, err)
			}
		})
		id := d.next(t, approvals.EventCreated).ID
		for range 3 {
			if got := next(); !strings.Contains(got, id) {
				t.Errorf("%s: %q", revision, got)
			}
		}
		d.approve(t, id)
		for got := id; strings.Contains(got, id); {
			got = next()
		}
		check.Ended(t, &calling, "the end of the call")
	}
	if n := len(f.capability.Seen()); n != len(revisions) {
		t.Errorf("%d calls", n)
	}
}

// TestMCPUnansweredCalls: a call that is not approved in time ends with a tool error that names its approval.
// Of equal calls after the approval, at any replica, one runs.
func TestMCPUnansweredCalls(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	a, b := startMCP(t, askingMCP(d, 10*time.Millisecond)), startMCP(t, askingMCP(d, 10*time.Millisecond))
	for _, revision := range revisions {
		sessions := []*sdk.ClientSession{a.session(t, revision, nil), b.session(t, revision, nil)}
		r, err := callEcho(t, sessions[0], revision)
		if err != nil || !r.IsError {
			t.Fatalf("%s: %+v %v", revision, r, err)
		}
		id := regexp.MustCompile(`apr_\w+`).FindString(textOf(t, r))
		d.approve(t, id)
		var ran atomic.Int64
		var calling sync.WaitGroup
		for i := range 6 {
			calling.Go(func() {
				switch r, err := callEcho(t, sessions[i%2], revision); {
				case err == nil && !r.IsError:
					ran.Add(1)
				case err != nil && !strings.Contains(err.Error(), "has been used"):
					t.Errorf("%s: %v", revision, err)
				}
			})
		}
		check.Ended(t, &calling, "the end of the calls")
		if ran.Load() != 1 {
			t.Errorf("%s: one approval permitted %d calls", revision, ran.Load())
		}
	}
	if n := len(b.capability.Seen()) + len(a.capability.Seen()); n != len(revisions) {
		t.Errorf("%d calls", n)
	}
}

// shows returns a client that can show pages to its user, and notifies the test of each.
func shows(pages chan *sdk.ElicitParams) *sdk.ClientOptions {
	return &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
			URL: &sdk.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			pages <- r.Params
			return &sdk.ElicitResult{Action: "accept"}, nil
		},
	}
}

// TestMCPApprovalPages: a client of 2026-07-28 shows the page of the approval, and the call runs at any replica
// once it is approved.
func TestMCPApprovalPages(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	d.SetPublicURL("https://capgate.example.com")
	f := startMCP(t, askingMCP(d, check.Patience))
	pages := make(chan *sdk.ElicitParams, 10)
	s := f.session(t, revisions[0], shows(pages))
	var calling sync.WaitGroup
	calling.Go(func() {
		r, err := s.CallTool(t.Context(), echo("x"))
		if err != nil || r.IsError || textOf(t, r) != `{"a":"x"}` {
			t.Errorf("got %+v %v", r, err)
		}
	})
	page := check.Received(t, pages, "the client to be asked to show the page")
	if id := d.approveNext(t); page.Mode != "url" || page.URL != "https://capgate.example.com/inbox#/default/"+id {
		t.Errorf("got %+v", page)
	}
	check.Ended(t, &calling, "the end of the call")
	if n := len(f.capability.Seen()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// forged changes one character of a sealed text.
func forged(text string) string {
	other := "A"
	if text[40] == 'A' {
		other = "B"
	}
	return text[:40] + other + text[41:]
}

const newestMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}`

// inNewest sends a call of the newest revision, with further params.
func (f *mcpFront) inNewest(t *testing.T, args, more string, header ...string) (answer struct {
	Result struct {
		ResultType, RequestState string
		IsError                  bool
	}
	Error struct {
		Code int
		Data struct{ Reason string }
	}
}) {
	t.Helper()
	_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+newestMeta+`,"name":"caps__echo",`+
		`"arguments":`+args+more+`}}`, append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call",
		"Mcp-Name", "caps__echo"}, header...)...)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer
}

// TestMCPRequestState: a request state is valid once, for its call and its caller, at any replica; a forged one
// is rejected.
func TestMCPRequestState(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	d.SetPublicURL("https://capgate.example.com")
	a, b := startMCP(t, askingMCP(d, check.Patience)), startMCP(t, askingMCP(d, check.Patience))
	asked := a.inNewest(t, `{"a":1,"b":2}`, ``)
	if asked.Result.ResultType != "input_required" || asked.Result.RequestState == "" {
		t.Fatalf("got %+v", asked)
	}
	state := asked.Result.RequestState
	with := func(state string) string { return `,"requestState":"` + state + `"` }
	d.approveNext(t)
	for name, got := range map[string]int{
		"forged":            b.inNewest(t, `{"a":1,"b":2}`, with(forged(state))).Error.Code,
		"cut":               b.inNewest(t, `{"a":1,"b":2}`, with(state[:20])).Error.Code,
		"of another call":   b.inNewest(t, `{"a":1,"b":3}`, with(state)).Error.Code,
		"of another caller": b.inNewest(t, `{"a":1,"b":2}`, with(state), "X-User-Id", "mallory").Error.Code,
	} {
		if got != -32602 {
			t.Errorf("%s: %d", name, got)
		}
	}
	declined := b.inNewest(t, `{"a":1,"b":2}`, with(state)+`,"inputResponses":{"approval":{"action":"decline"}}`)
	if !declined.Result.IsError || len(b.capability.Seen()) > 0 {
		t.Errorf("%+v, %d calls", declined, len(b.capability.Seen()))
	}
	var ran atomic.Int64
	var calling sync.WaitGroup
	for i := range 6 {
		calling.Go(func() {
			got := []*mcpFront{a, b}[i%2].inNewest(t, `{ "b":2, "a":1 }`, with(state))
			switch {
			case got.Result.ResultType == "complete" && !got.Result.IsError:
				ran.Add(1)
			case got.Error.Data.Reason != "APPROVAL_USED":
				t.Errorf("got %+v", got)
			}
		})
	}
	check.Ended(t, &calling, "the end of the calls")
	if ran.Load() != 1 {
		t.Errorf("%d of the calls with one state ran", ran.Load())
	}
	if again := a.inNewest(t, `{"a":1,"b":2}`, with(state)); again.Error.Data.Reason != "APPROVAL_USED" {
		t.Errorf("got %+v", again)
	}
	if n := len(a.capability.Seen()) + len(b.capability.Seen()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestMCPSessions: a session id carries what its client has declared, at any replica, for its caller alone.
func TestMCPSessions(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	d.SetPublicURL("https://capgate.example.com")
	a, b := startMCP(t, askingMCP(d, check.Patience)), startMCP(t, askingMCP(d, check.Patience))
	resp, text := a.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"elicitation":{"url":{}}},"clientInfo":{"name":"x","version":"1"}}}`)
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != 200 || id == "" {
		t.Fatalf("%d %s; id %+v", resp.StatusCode, text, id)
	}
	invoke := func(f *mcpFront, id string, header ...string) (int, string) {
		resp, text := f.post(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"caps__echo",`+
			`"arguments":{"a":1}}}`, append([]string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25"},
			header...)...)
		return resp.StatusCode, text
	}
	if code, text := invoke(b, id); code != 200 || !strings.Contains(text, `"code":-32042`) ||
		!strings.Contains(text, "https://capgate.example.com/inbox#/default/apr_") {
		t.Errorf("got %d %s", code, text)
	}
	d.approveNext(t)
	if code, text := invoke(a, id); code != 200 || !strings.Contains(text, `"structuredContent":{"a":1}`) {
		t.Errorf("got %d %s", code, text)
	}
	if code, text := invoke(a, forged(id)); code != 404 || !strings.Contains(text, "MCP_SESSION_UNKNOWN") {
		t.Errorf("forged: %d %s", code, text)
	}
	if code, text := invoke(a, id, "X-User-Id", "mallory"); code != 404 {
		t.Errorf("from another caller: %d %s", code, text)
	}
}

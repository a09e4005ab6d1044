package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestQuestionsAreAllowed: what a fleet does not allow, or the client does not declare, is not declared to the server,
// and does not reach the client if the server asks nevertheless.
func TestQuestionsAreAllowed(t *testing.T) {
	t.Parallel()
	plain := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"},
		&sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	for server, old := range eras {
		for _, client := range []string{"2026-07-28", "2025-11-25"} {
			for name, c := range map[string]struct {
				allowed  []string
				declares bool
			}{
				"the fleet allows none":        {nil, true},
				"the fleet allows forms":       {[]string{"forms", "roots"}, true},
				"the client declares nothing":  {[]string{"elicitation", "sampling", "roots"}, false},
				"the fleet allows only models": {[]string{"sampling"}, true},
			} {
				t.Run(server+" "+client+" "+name, func(t *testing.T) {
					t.Parallel()
					var forms atomic.Int32
					who := plain
					if c.declares {
						who = answering(func(string) { forms.Add(1) })
					}
					w := startAsking(t, newAsking(t, old), c.allowed)
					text, failed := ask(t, w.connect(t, who, client))
					if !failed || !strings.Contains(text, "does not support") && !strings.Contains(text,
						"mcp_server.questions does not allow") {
						t.Errorf("%q, %t", text, failed)
					}
					passes := old && client != "2026-07-28" && len(c.allowed) == 2 // the server asks one by one
					if (forms.Load() > 0) != passes {
						t.Errorf("the client showed %d forms", forms.Load())
					}
				})
			}
		}
	}
}

// ofTwoTenants makes a gateway require the keys of two tenants, which it returns. Those of acme assert users.
func ofTwoTenants(t *testing.T, o *gatewaytest.Options) (credentials map[string]string) {
	t.Helper()
	keys, settings := tenant.NewKeys(nil), map[string]*tenant.Settings{}
	credentials = map[string]string{}
	grants, err := tenant.ParseGrants([]string{"*"})
	check.Must(t, err)
	var all []tenant.Key
	for _, of := range []string{"acme", "globex"} {
		key, secret := tenant.NewCredential()
		settings[of], credentials[of] = &tenant.Settings{ID: of, Capabilities: grants}, tenant.Credential(key, secret)
		all = append(all, tenant.Key{ID: key, Tenant: of, Hash: tenant.HashOf(secret, nil),
			Scopes: tenant.Invoke | tenant.Read, Asserts: tenant.User})
	}
	keys.Replace(all, settings, nil)
	o.Authenticator = tenant.NewAuthenticators(tenant.Sources{File: keys})
	return credentials
}

// post sends a message of 2026-07-28 without an SDK, and returns the response.
func (w *mcpGateway) post(t *testing.T, credential, user, params string) string {
	t.Helper()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}}`
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://"+w.gateway.Addr+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`,`+meta+`}}`))
	check.Must(t, err)
	var of struct{ Name string }
	check.Must(t, json.Unmarshal([]byte("{"+params+"}"), &of))
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": of.Name, "X-Api-Key": credential,
		"X-User-Id": user} {
		r.Header.Set(name, value)
	}
	resp, err := clienttest.HTTP.Do(r)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(text)
}

// TestStatesOfServersAreSealed: the state of a server leaves the gateway sealed, and returns only for the same caller,
// tool and arguments. Anything else is refused before the server receives a call.
func TestStatesOfServersAreSealed(t *testing.T) {
	t.Parallel()
	r := newAsking(t, false)
	var credentials map[string]string
	w := startAsking(t, r, []string{"elicitation", "sampling", "roots"}, func(o *gatewaytest.Options) {
		credentials = ofTwoTenants(t, o)
	})
	const call, answers = `"name":"` + id + `__asks","arguments":{"a":1}`, `"inputResponses":{"n":{"action":"accept",` +
		`"content":{"name":"Ann"}},"g":{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}},` +
		`"r":{"roots":[{"uri":"file:///ann"}]}}`
	first := w.post(t, credentials["acme"], "ann", call)
	var of struct {
		Result struct {
			Type  string `json:"resultType"`
			State string `json:"requestState"`
		} `json:"result"`
	}
	check.Must(t, json.Unmarshal([]byte(first), &of))
	state := of.Result.State
	if of.Result.Type != "input_required" || state == "" || strings.Contains(first, "state of the server") {
		t.Fatalf("the state is %s", first)
	}
	repeated := func(state string) string { return call + `,` + answers + `,"requestState":"` + state + `"` }
	changed := state[:40] + "A" + state[41:]
	if changed == state {
		changed = state[:40] + "B" + state[41:]
	}
	before := r.calls.Load()
	for name, c := range map[string]struct{ credential, user, params string }{
		"another tenant":    {credentials["globex"], "ann", repeated(state)},
		"another user":      {credentials["acme"], "bob", repeated(state)},
		"other arguments":   {credentials["acme"], "ann", strings.Replace(repeated(state), `"a":1`, `"a":2`, 1)},
		"another tool":      {credentials["acme"], "ann", strings.Replace(repeated(state), "__asks", "__echo", 1)},
		"a changed state":   {credentials["acme"], "ann", repeated(changed)},
		"a longer state":    {credentials["acme"], "ann", repeated(state + "-TAMPERED")},
		"the server's own":  {credentials["acme"], "ann", repeated("state of the server")},
		"more than allowed": {credentials["acme"], "ann", repeated(strings.Repeat("A", 512<<10+4))},
	} {
		if got := w.post(t, c.credential, c.user, c.params); !strings.Contains(got, "MCP_STATE_INVALID") {
			t.Errorf("%s: %.300s", name, got)
		}
	}
	if after := r.calls.Load(); after != before {
		t.Errorf("the server got %d calls with states of others", after-before)
	}
	if got := w.post(t, credentials["acme"], "ann", repeated(state)); !strings.Contains(got, "Ann hello file:///ann") {
		t.Errorf("the same caller: %s", got)
	}
}

// slowAsking serves a tool that starts this number of forms at once, and returns how many had an answer.
func slowAsking(t *testing.T, forms int, refused func()) *remote {
	t.Helper()
	r := newRemote(t, true)
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var asking sync.WaitGroup
			var answers atomic.Int32
			for range forms {
				asking.Go(func() {
					_, err := q.Session.Elicit(ctx, &sdk.ElicitParams{Message: "?",
						RequestedSchema: map[string]any{"type": "object"}})
					if err != nil {
						refused()
						return
					}
					answers.Add(1)
				})
			}
			asking.Wait()
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(answers.Load())}}}, nil
		})
	return r
}

// TestQuestionsAreFew: a call has at most four open questions. Others are refused at once.
func TestQuestionsAreFew(t *testing.T) {
	t.Parallel()
	const forms, open = 16, 4
	var refused atomic.Int32
	few := make(chan struct{})
	r := slowAsking(t, forms, func() {
		if refused.Add(1) == forms-open {
			close(few)
		}
	})
	w := startAsking(t, r, []string{"forms"})
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			select {
			case <-few:
			case <-ctx.Done():
			}
			return &sdk.ElicitResult{Action: "decline"}, nil
		}})
	if text, failed := ask(t, w.connect(t, client, "2025-11-25")); failed || text != fmt.Sprint(open) {
		t.Errorf("%s questions were answered, %t", text, failed)
	}
}

// TestPingsAreNoQuestions: a server may check its client during a call, more often than it may ask, and asks then.
func TestPingsAreNoQuestions(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for range 70 {
				if err := q.Session.Ping(ctx, nil); err != nil {
					return nil, err
				}
			}
			got, err := q.Session.Elicit(ctx, &sdk.ElicitParams{Message: "?",
				RequestedSchema: map[string]any{"type": "object"}})
			if err != nil {
				return nil, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: got.Action}}}, nil
		})
	w := startAsking(t, r, []string{"forms"})
	if text, failed := ask(t, w.connect(t, answering(func(string) {}), "2025-11-25")); failed || text != "accept" {
		t.Errorf("%q, %t", text, failed)
	}
}

// TestQuestionsEndWithTheirCall: if a call ends while its question is open, the question is withdrawn at the client.
// The server cannot withdraw it.
func TestQuestionsEndWithTheirCall(t *testing.T) {
	t.Parallel()
	r, shown, withdrawn := newRemote(t, true), make(chan struct{}), make(chan struct{})
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			asking, stop := context.WithCancel(ctx)
			var running sync.WaitGroup
			running.Go(func() {
				_, _ = q.Session.Elicit(asking, &sdk.ElicitParams{Message: "?",
					RequestedSchema: map[string]any{"type": "object"}})
			})
			select {
			case <-shown:
			case <-ctx.Done():
			}
			stop()
			running.Wait()
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "over"}}}, nil
		})
	w, failing := startAsking(t, r, []string{"forms"}), make(chan struct{})
	s := w.connect(t, sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			close(shown)
			select {
			case <-ctx.Done():
				close(withdrawn)
			case <-failing:
			}
			return &sdk.ElicitResult{Action: "cancel"}, ctx.Err()
		}}), "2025-11-25")
	check.Cleanup(t, func() { close(failing) })
	if text, failed := ask(t, s); failed || text != "over" {
		t.Errorf("%q, %t", text, failed)
	}
	check.Received(t, withdrawn, "the end of the question")
}

package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
)

// granted is a directory of tenants whose credentials are "tenant key capability,capability".
type granted struct{}

func (granted) Lookup(c tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	of := strings.Fields(strings.Clone(c.Credential) + " - none")
	s := &tenant.Settings{ID: of[0]}
	s.Capabilities, _ = tenant.ParseGrants(strings.Split(of[2], ","))
	return tenant.Identity{Tenant: s.ID, Key: of[1], Scopes: tenant.Invoke | tenant.Read, Settings: s}, true, nil
}

func (g granted) Authenticate(_ context.Context, c tenant.Credentials) (tenant.Identity, *call.Refusal) {
	who, _, refusal := g.Lookup(c)
	return who, refusal
}

// TestMCPNamesOfOthers: tool names are resolved among the tools that the caller sees, and errors reveal nothing
// else.
func TestMCPNamesOfOthers(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = granted{}
		o.MCP.Settings.Names = mcp.NewNames(map[string]string{"a-secret": "", "caps": "", "z-secret": "",
			"mine": "theirs"})
	})
	declared := catalog.Declaration{Policy: call.Allow,
		Manifest: &manifest.Manifest{Tools: []manifest.Tool{tool(t, gatewaytest.Echo), tool(t, "known")}}}
	all := map[string]catalog.Declaration{"caps": declared, "a-secret": declared, "mine": declared,
		"z-secret": declared}
	f.known.Replace(all)
	const own = "Bearer acme k1 caps"
	list := func(credential string) string {
		_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", credential)
		return text
	}
	invoke := func(credential, name string) string {
		_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`"}}`,
			"Authorization", credential, "X-Request-Id", "r")
		return text
	}
	if text := list(own); !strings.Contains(text, `"name":"echo"`) || strings.Contains(text, "secret") {
		t.Errorf("the caller's own tools: %s", text)
	}
	if text := invoke(own, "echo"); !strings.Contains(text, `"result"`) {
		t.Errorf("a call of the caller's own tool: %s", text)
	}
	for name, c := range map[string]struct{ credential, hidden, absent string }{
		"a tool without a prefix": {"Bearer acme k1 none", "known", "other"},
		"a prefix":                {own, "theirs__known", "others__known"},
		"an id":                   {own, "a-secret__known", "a-nobody__known"},
	} {
		hidden, absent := invoke(c.credential, c.hidden), invoke(c.credential, c.absent)
		prefix := func(name string) string { before, _, _ := strings.Cut(name, "__"); return before }
		if got := strings.ReplaceAll(hidden, prefix(c.hidden), prefix(c.absent)); got != absent ||
			!strings.Contains(absent, "TOOL_UNKNOWN") {
			t.Errorf("%s: hidden %s, absent %s", name, hidden, absent)
		}
	}
}

// TestMCPWrongTypes: a value of the wrong type is rejected and does no harm.
func TestMCPWrongTypes(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.MCP.Keys = gatewaytest.SharedKeys
		o.MCP.Settings.Search = []string{"*"}
	})
	for _, value := range []string{`[]`, `{}`, `[1,[2],{"a":[]}]`, `{"a":{"b":[]}}`, `null`, `true`, `1`, `1e400`,
		`"x"`} {
		for _, message := range []string{
			`{"jsonrpc":"2.0","id":?,"method":"ping"}`, `{"jsonrpc":?,"id":1,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":1,"method":?}`, `{"jsonrpc":"2.0","id":1,"method":"ping","params":?}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":?}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":?}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":?}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool","arguments":{"name":?}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_tools","arguments":{"query":?}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":?}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":?}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":?}}`,
			`{"jsonrpc":"2.0","id":1,"result":?}`, `{"jsonrpc":"2.0","id":1,"error":?}`,
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":?}`,
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":?}}`,
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":?}}`,
		} {
			body := strings.ReplaceAll(message, "?", value)
			for _, body := range []string{body, "[" + body + "]"} {
				resp, text := f.post(t, body, "Accept", "application/json")
				if resp.StatusCode >= http.StatusInternalServerError ||
					text != "" && (!json.Valid([]byte(text)) || resp.Header.Get("Content-Type") != "application/json") {
					t.Errorf("%s: %d %s %q", body, resp.StatusCode, resp.Header.Get("Content-Type"), text)
				}
			}
		}
	}
	if text := f.gateway.Log.String(); strings.Contains(text, "goroutine") || strings.Contains(text, "panic") {
		t.Errorf("the log: %.2000s", text)
	}
}

// TestMCPLongIDs: every method returns the request's id unchanged.
func TestMCPLongIDs(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	for _, id := range []string{"0", "-1", "999999999999999", "9007199254740991", "-9007199254740991",
		`9007199254740993`, `-9223372036854775809`, `"9007199254740993"`, `"a\nb"`} {
		for _, method := range []string{`"ping"`, `"tools/list"`, `"tools/call","params":{"name":"caps__echo"}`,
			`"tools/call","params":{"name":"caps__echo","_meta":{"progressToken":1}}`, `"tools/call"`, `"x"`} {
			body := `{"jsonrpc":"2.0","id":` + id + `,"method":` + method + `}`
			for _, accept := range []string{"application/json", "application/json, text/event-stream"} {
				_, text := f.post(t, body, "Accept", accept)
				if !strings.Contains(text, `"id":`+id+`,`) && !strings.Contains(text, `"id":`+id+`}`) {
					t.Errorf("%s, %s: %s", body, accept, text)
				}
			}
			_, text := f.post(t, "["+body+"]")
			var answers []struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != 1 ||
				string(answers[0].ID) != id {
				t.Errorf("a batch of %s: %s", body, text)
			}
		}
	}
}

// TestMCPExactNames: members of call_tool and search_tools match their schemas' names in exact case only.
func TestMCPExactNames(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) { o.MCP.Settings.Search = []string{"*"} })
	for args, want := range map[string]string{
		`{"name":"caps__echo","arguments":{"n":1}}`:                  `"structuredContent":{"n":1}`,
		`{"name":"caps__echo","arguments":{"n":1},"Name":"caps__x"}`: "INVALID_BODY",
		`{"name":"caps__echo","Arguments":{"n":1}}`:                  "INVALID_BODY",
		`{"Name":"caps__echo","arguments":{"n":1}}`:                  "INVALID_BODY",
		`{"NAME":"caps__echo"}`:                                      "INVALID_BODY",
	} {
		_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool","arguments":`+
			args+`}}`, "Mcp-Protocol-Version", "2025-11-25")
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s", args, text)
		}
	}
	_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_tools","arguments":`+
		`{"Query":"echo"}}}`)
	if strings.Contains(text, "caps__echo") {
		t.Errorf("got %s", text)
	}
}

// TestMCPTaskOfAnotherKey: a task belongs to the credential that created it.
func TestMCPTaskOfAnotherKey(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	stored, err := idempotency.New(outsideStore{Store: gatewaytest.OpenStore(t, "embedded").Idempotency()},
		idempotency.Options{Keys: [][]byte{make([]byte, aead.KeyBytes)}})
	check.Must(t, err)
	check.Cleanup(t, stored.Close)
	f := startMCP(t, askingMCP(d, check.Patience), func(o *gatewaytest.Options) {
		o.Authenticator, o.Answers, o.MCP.Approvals = granted{}, stored, d
	})
	own, other := []string{"Authorization", "Bearer acme k1 *"}, []string{"Authorization", "Bearer acme k2 *"}
	a := f.rpc(t, "tools/call", "caps__echo", taskMeta+`,"name":"caps__echo","arguments":{}`, own...)
	id := a.Result.TaskID
	if id == "" {
		t.Fatalf("got %+v", a)
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if a := f.about(t, method, id, other...); a.Error.Data.Reason != "TASK_UNKNOWN" {
			t.Errorf("%s by another key: %+v", method, a)
		}
	}
	_, err = d.Service.Approve(t.Context(), "acme", id, approvals.Answer{By: "operator"})
	check.Must(t, err)
	check.Holds(t, "the task to be completed", func() bool {
		if a := f.about(t, "tasks/get", id, other...); a.Error.Data.Reason != "TASK_UNKNOWN" {
			t.Errorf("the result for another key: %+v", a)
		}
		return f.about(t, "tasks/get", id, own...).Result.Status == "completed"
	})
	if a := f.about(t, "tasks/get", id, other...); a.Error.Data.Reason != "TASK_UNKNOWN" {
		t.Errorf("the result for another key: %+v", a)
	}
}

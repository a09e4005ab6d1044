package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

// Approve implements approval.Approvals.
func (d *desk) Approve(ctx context.Context, tenant, id string, answer approvals.Answer) (approvals.Approval, error) {
	outside()
	return d.Service.Approve(ctx, tenant, id, answer)
}

// selfApproval makes a gateway accept answers of callers that may approve their own calls of echo.
func (d *desk) selfApproval(t *testing.T, wait time.Duration,
	change ...func(*gatewaytest.Options)) (f *mcpFront, credentials map[string]string) {
	t.Helper()
	ring, self := newKeyring(), true
	d.SetAnswerRules([]approvals.AnswerRule{{Tenant: policy.Any, Capability: policy.Any, Tool: gatewaytest.Echo,
		Self: &self}})
	asserts := func(k *tenant.Key) { k.Asserts = tenant.User }
	ring.issue("self", "acme", tenant.Invoke|tenant.Read|tenant.Approve, asserts)
	ring.issue("plain", "acme", tenant.Invoke|tenant.Read, asserts)
	return startMCP(t, append(change, askingMCP(d, wait), func(o *gatewaytest.Options) {
		o.Authenticator = ring.authenticator()
		answers := approval.New(approval.Config{Approvals: d,
			Log: slog.New(slog.DiscardHandler)})
		o.Leaving, o.Services = answers.Leave, func(g grpc.ServiceRegistrar) { answers.Register(g) }
	})...), ring.credentials
}

// TestMCPForms: a caller that may approve its own call does so in a form, if its client shows forms; policy
// alone decides that. Before 2026-07-28, the form is requested on the call's stream.
func TestMCPForms(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	patient, credentials := d.selfApproval(t, check.Patience)
	modes := map[string]string{"2026-07-28": "form", "2025-11-25": "form", "2025-06-18": ""} // of the request
	short, others := d.selfApproval(t, 10*time.Millisecond)
	for name, c := range map[string]struct {
		key, user, tool, action, text string
		approve                       bool
		calls                         int
		forms                         bool
	}{
		"approved": {key: "self", user: "ann", action: "accept", approve: true, text: `{"a":"x"}`,
			forms: true, calls: 1},
		"not approved":            {key: "self", user: "ann", action: "accept", text: "was declined", forms: true},
		"declined":                {key: "self", user: "ann", action: "decline", text: "was declined", forms: true},
		"cancelled":               {key: "self", user: "ann", action: "cancel", text: "was declined", forms: true},
		"no rule for its tool":    {key: "self", user: "ann", tool: gatewaytest.Fail, text: "There is no answer yet"},
		"a caller without a user": {key: "self", text: "There is no answer yet"},
		"without the scope":       {key: "plain", user: "ann", text: "There is no answer yet"},
	} {
		for revision := range modes {
			for _, token := range []any{nil, "token"} {
				f, credential := patient, credentials[c.key]
				if !c.forms {
					f, credential = short, others[c.key]
				}
				what, before, forms := fmt.Sprint(name, " ", revision, " ", token), len(f.capability.Seen()),
					atomic.Int32{}
				s := f.session(t, revision, &sdk.ClientOptions{
					Capabilities: &sdk.ClientCapabilities{
						Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
					ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
						if forms.Add(1); r.Params.Mode != modes[revision] ||
							!strings.Contains(r.Params.Message, `"x"`) {
							t.Errorf("%s: %+v", what, r.Params)
						}
						return &sdk.ElicitResult{Action: c.action, Content: map[string]any{"approve": c.approve}}, nil
					},
				}, "X-Api-Key", credential, "X-User-Id", c.user, "X-Session-Id", strings.ReplaceAll(what, " ", "-"))
				p := echo("x")
				if c.tool != "" {
					p.Name = "caps__" + c.tool
				}
				if token != nil {
					p.SetProgressToken(token)
				}
				r, err := s.CallTool(t.Context(), p)
				if denied := c.forms && c.calls == 0; denied && revision != "2026-07-28" {
					if _, data := refusalOf(t, err); data["reason"] != "APPROVAL_DENIED" {
						t.Errorf("%s: %+v %v", what, r, err)
					}
				} else if err != nil || !strings.Contains(textOf(t, r), c.text) || r.IsError != (c.calls == 0) {
					t.Errorf("%s: %+v %v", what, r, err)
				}
				if n := len(f.capability.Seen()) - before; n != c.calls || (forms.Load() > 0) != c.forms {
					t.Errorf("%s: %d calls, %d forms", what, n, forms.Load())
				}
			}
		}
	}
}

// formOf makes a call of echo that its user approves in the form, and returns the form's message.
func (f *mcpFront) formOf(t *testing.T, revision, credential, text string) (shown string) {
	t.Helper()
	s := f.session(t, revision, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{
			Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			shown = r.Params.Message
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
		},
	}, "X-Api-Key", credential, "X-User-Id", "ann", "X-Session-Id", revision)
	if _, err := s.CallTool(t.Context(), echo(text)); err != nil {
		t.Errorf("%s: %v", revision, err)
	}
	return shown
}

// TestMCPFormsShowTheWholeCall: a form has all arguments, including those that lists of approvals shorten.
func TestMCPFormsShowTheWholeCall(t *testing.T) {
	t.Parallel()
	f, credentials := openDesk(t).selfApproval(t, check.Patience)
	text := strings.Repeat("x ", 8000) + "and at the end, account 4711"
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		shown := f.formOf(t, revision, credentials["self"], text)
		if !strings.Contains(shown, text) {
			t.Errorf("%s: the form shows %d bytes of %d: …%s", revision, len(shown), len(text),
				shown[max(len(shown)-80, 0):])
		}
	}
}

// TestMCPFormsShowTheChange: before the arguments, a form shows how a changed tool differs from its accepted
// version.
func TestMCPFormsShowTheChange(t *testing.T) {
	t.Parallel()
	const change = "it has changed since its version was accepted:\ndescription:\n+ Sends it to everybody.\n- " +
		"Repeats it."
	changes := map[string]string{gatewaytest.Echo: change}
	f, credentials := openDesk(t).selfApproval(t, check.Patience, func(o *gatewaytest.Options) {
		o.Describe = func(_, tool string) authorize.Description { return authorize.Description{Change: changes[tool]} }
	})
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		shown := f.formOf(t, revision, credentials["self"], "x")
		want := "Run echo of caps? Note that " + change + "\nIts arguments are:\n"
		if !strings.HasPrefix(shown, want) || !strings.Contains(shown, `"x"`) {
			t.Errorf("%s: the form says %q, want %q", revision, shown, want)
		}
	}
}

// TestMCPAnswersCountOnce: a repeated answer is rejected, and the call runs once.
func TestMCPAnswersCountOnce(t *testing.T) {
	t.Parallel()
	f, credentials := openDesk(t).selfApproval(t, check.Patience)
	header := []string{"X-Api-Key", credentials["self"], "X-User-Id", "ann", "Mcp-Protocol-Version", "2025-11-25"}
	begun, _ := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}`, header...)
	header = append(header, "Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"))
	stream := bufio.NewScanner(f.open(t, http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+
		`"name":"caps__echo","arguments":{"a":1}}}`, header...).Body)
	next := func() (m struct {
		ID, Result json.RawMessage
		Method     string
	}) {
		for stream.Scan() {
			if data, ok := strings.CutPrefix(stream.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &m); err != nil {
					t.Error(err)
				}
				return m
			}
		}
		t.Fatalf("the stream has ended: %v", stream.Err())
		return m
	}
	asked := next()
	for _, want := range []string{"202 ", "400 APPROVAL_NOT_PENDING"} {
		resp, text := f.post(t, `{"jsonrpc":"2.0","id":`+string(asked.ID)+
			`,"result":{"action":"accept","content":{"approve":true}}}`, header...)
		var refused struct {
			Error struct{ Data struct{ Reason string } }
		}
		_ = json.Unmarshal([]byte(text), &refused)
		if got := fmt.Sprint(resp.StatusCode, " ", refused.Error.Data.Reason); got != want {
			t.Errorf("%s %s, want %s", got, text, want)
		}
	}
	if m := next(); m.Method != "notifications/cancelled" {
		t.Errorf("got %+v", m)
	}
	if m := next(); !strings.Contains(string(m.Result), `"structuredContent":{"a":1}`) ||
		len(f.capability.Seen()) != 1 {
		t.Errorf("%s, %d calls", m.Result, len(f.capability.Seen()))
	}
}

package gateway_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

// Approve implements approval.Approvals.
func (d *desk) Approve(ctx context.Context, tenant, id string, answer approvals.Answer) (approvals.Approval, error) {
	outside()
	return d.Service.Approve(ctx, tenant, id, answer)
}

// TestMCPForms: a caller that may approve its own call does so in a form, where its client shows forms, and policy alone
// decides whether it may.
func TestMCPForms(t *testing.T) {
	t.Parallel()
	d, ring, self := openDesk(t), newKeyring(), true
	d.SetAnswerRules([]approvals.AnswerRule{{Tenant: policy.Any, Capability: policy.Any, Tool: gatewaytest.Echo, Self: &self}})
	asserts := func(k *tenant.Key) { k.Asserts = tenant.User }
	ring.issue("self", "acme", tenant.Invoke|tenant.Read|tenant.Approve, asserts)
	ring.issue("plain", "acme", tenant.Invoke|tenant.Read, asserts)
	f := startMCP(t, askingMCP(d, 10*time.Millisecond), func(o *gatewaytest.Options) {
		o.Authenticator = ring.authenticator()
		answers := approval.New(approval.Config{Approvals: d, Status: gateway.GRPCStatus, HTTPStatus: gateway.HTTPStatus,
			Log: slog.New(slog.DiscardHandler)})
		o.Leaving, o.Services = answers.Leave, func(g grpc.ServiceRegistrar) { answers.Register(g) }
	})
	for name, c := range map[string]struct {
		key, user, tool, action, text string
		approve                       bool
		calls                         int
		forms                         bool
	}{
		"approved":                {key: "self", user: "ann", action: "accept", approve: true, text: `{"a":"x"}`, forms: true, calls: 1},
		"not approved":            {key: "self", user: "ann", action: "accept", text: "was declined", forms: true},
		"declined":                {key: "self", user: "ann", action: "decline", text: "was declined", forms: true},
		"no rule for its tool":    {key: "self", user: "ann", tool: gatewaytest.Fail, text: "There is no answer yet"},
		"a caller without a user": {key: "self", text: "There is no answer yet"},
		"without the scope":       {key: "plain", user: "ann", text: "There is no answer yet"},
	} {
		before, forms := len(f.capability.Seen()), 0
		s := f.session(t, revisions[0], &sdk.ClientOptions{
			Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
			ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				if forms++; r.Params.Mode != "form" || !strings.Contains(r.Params.Message, `"x"`) {
					t.Errorf("%s: %+v", name, r.Params)
				}
				return &sdk.ElicitResult{Action: c.action, Content: map[string]any{"approve": c.approve}}, nil
			},
		}, "X-Api-Key", ring.credentials[c.key], "X-User-Id", c.user, "X-Session-Id", strings.ReplaceAll(name, " ", "-"))
		p := echo("x")
		if c.tool != "" {
			p.Name = "caps__" + c.tool
		}
		r, err := s.CallTool(t.Context(), p)
		if err != nil || !strings.Contains(textOf(t, r), c.text) || r.IsError != (c.calls == 0) {
			t.Errorf("%s: %+v %v", name, r, err)
		}
		if n := len(f.capability.Seen()) - before; n != c.calls || (forms > 0) != c.forms {
			t.Errorf("%s: %d calls, %d forms", name, n, forms)
		}
	}
}

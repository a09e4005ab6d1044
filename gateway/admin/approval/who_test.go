package approval_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// known authenticates operators by their names in place of keys.
type known map[string]operator.Identity

func (k known) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	name, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	who, ok := k[name]
	if given && !ok {
		return nil, true, &call.Refusal{Kind: call.Unauthenticated, Reason: "OPERATOR_UNKNOWN", Message: "who?"}
	}
	who.Name, who.Via = name, operator.ViaKey
	return &who, given, nil
}

// guarded returns the admin API of the ports, whose guard knows some operators.
func (p *ports) guarded(t *testing.T, who known) *gatewaytest.Services {
	t.Helper()
	return gatewaytest.ServeGuarded(t, who, p.service.Operators())
}

// TestRolesAnswerOverHTTP: at the guarded admin API an approver answers by either form of the path; others are
// refused, and the approval stays as it was.
func TestRolesAnswerOverHTTP(t *testing.T) {
	t.Parallel()
	p := serve(t)
	web := p.guarded(t, known{"val": {Roles: operator.View}, "ops": {Roles: operator.Operate},
		"app": {Roles: operator.Approve}, "acme's": {Tenants: []operator.TenantRoles{{Tenant: "acme",
			Roles: operator.Approve}}},
		"adm": {Roles: operator.Admin}})
	for _, test := range []struct {
		who, verb, body string
		status          int
		want            string
	}{
		{"", ":approve", `{}`, 401, "OPERATOR"}, {"eve", ":deny", `{}`, 401, "OPERATOR_UNKNOWN"},
		{"val", ":approve", `{}`, 403, "ROLE_MISSING"}, {"val", ":deny", `{}`, 403, "ROLE_MISSING"},
		{"val", "/approve", `{}`, 403, "ROLE_MISSING"}, {"ops", ":approve", `{}`, 403, "ROLE_MISSING"},
		{"acme's", ":approve", `{}`, 404, "APPROVAL_UNKNOWN"},
		{"app", ":approve", `{"remember":"always"}`, 403, "SCOPE_MISSING"},
		{"app", ":approve", `{"by":"mallory"}`, 200, "approved"}, {"app", ":deny", `{"comment":"no"}`, 200, "denied"},
		{"app", "/approve", `{}`, 200, "approved"}, {"adm", ":deny", `{}`, 200, "denied"},
	} {
		a := p.ask(t, approvals.Request{User: "ann", Args: []byte(`{"test":"` + test.who + test.verb + test.body[:1] +
			strings.NewReplacer(`"`, "", "{", "", "}", "").Replace(test.body) + `"}`)})
		var header []string
		if test.who != "" {
			header = []string{"Authorization", "Bearer " + test.who}
		}
		status, body := web.Ask(t, "POST", "/v1/approvals/"+a.ID+test.verb, test.body, header...)
		now, err := p.backing.Get(t.Context(), a.Tenant, a.ID)
		state, by := approvals.Pending.String(), ""
		if test.status == 200 {
			state, by = test.want, test.who // whatever the body says
		}
		if status != test.status || !strings.Contains(body, test.want) || err != nil || now.State.String() != state ||
			now.By != by {
			t.Errorf("%s %s %s: %d %s; then %v by %q, %v", test.who, test.verb, test.body, status, body, now.State,
				now.By, err)
		}
	}
}

// TestWhoMayAnswerIsTold: at both ports, an approval reports whether its reader may approve it, and if not, why.
func TestWhoMayAnswerIsTold(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.backing.SetAnswerRules([]approvals.AnswerRule{
		{Tenant: "*", Capability: "*", Tool: "grouped", Groups: []string{"sec"}},
		{Tenant: "*", Capability: "*", Tool: "two", Answers: 2}})
	web := p.guarded(t, known{"val": {Roles: operator.View}, "app": {Roles: operator.Approve},
		"ann": {Roles: operator.Approve, User: "ann"},
		"sec": {Roles: operator.Approve, User: "sam", Groups: []string{"sec"}}})
	const noScope, yes = "answer approvals at the admin API, or with an API key that has the scope approve", ""
	const own, groups = "this is your own call", "only members of these groups may answer: sec"
	for _, test := range []struct{ who, tool, want string }{
		{"val", "send", noScope}, {"app", "send", yes}, {"ann", "send", own}, {"sec", "send", yes},
		{"app", "grouped", groups}, {"ann", "grouped", groups}, {"sec", "grouped", yes},
		{"app", "two", yes}, {"ann", "two", own},
		{"key", "send", yes}, {"key of ann", "send", own}, {"key", "grouped", groups}, {"no key", "send", noScope},
	} {
		a := p.ask(t, approvals.Request{User: "ann", Tool: test.tool})
		may, why := p.told(t, web, test.who, a.ID)
		if may != (test.want == yes) || !strings.HasPrefix(why, test.want) || test.want == yes && why != "" {
			t.Errorf("%s, %s: %v %q, want %q", test.who, test.tool, may, why, test.want)
		}
	}
	done := p.ask(t, approvals.Request{User: "ann", Tool: "done"})
	if _, err := p.backing.Deny(t.Context(), done.Tenant, done.ID, approvals.Answer{}); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"app", "key"} {
		if may, why := p.told(t, web, who, done.ID); may ||
			why != "the approval is denied, and can no longer be answered" {
			t.Errorf("%s, denied: %v %q", who, may, why)
		}
	}
}

// told returns this report for an operator over JSON, or for a caller over gRPC.
func (p *ports) told(t *testing.T, web *gatewaytest.Services, who, id string) (may bool, why string) {
	t.Helper()
	if key, isCaller := strings.CutPrefix(who, "key"); isCaller || who == "no key" {
		ctx := caller(t.Context(), tenant.Default, "ann")
		if isCaller {
			ctx = metadata.AppendToOutgoingContext(caller(t.Context(), tenant.Default, strings.TrimPrefix(key, " of ")),
				"test-key", "k1")
		}
		a, err := p.callers.GetApproval(ctx, &capgatepb.GetApprovalRequest{ApprovalId: id})
		if err != nil {
			t.Fatal(who, err)
		}
		return a.GetApproval().GetMayAnswer(), a.GetApproval().GetMayNotAnswerWhy()
	}
	status, body := web.Ask(t, "GET", "/v1/approvals/"+id, "", "Authorization", "Bearer "+who)
	var said struct {
		May bool   `json:"may_answer"`
		Why string `json:"may_not_answer_why"`
	}
	if err := json.Unmarshal([]byte(body), &said); err != nil || status != http.StatusOK {
		t.Fatal(who, status, body, err)
	}
	return said.May, said.Why
}

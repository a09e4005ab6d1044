package approval_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// granted returns a tenant that may call a capability.
func granted(id, capability string) *tenant.Settings {
	grants, _ := tenant.ParseGrants([]string{capability}) // it is valid
	return &tenant.Settings{ID: id, Capabilities: grants}
}

// withTenants gives a gateway four tenants.
func withTenants(cfg *approval.Config) {
	all := tenant.NewDirectory(nil)
	all.Replace(map[string]*tenant.Settings{"acme": granted("acme", "mail"), "globex": granted("globex", "mail"),
		"initech": granted("initech", "news"), "other": granted("other", "mail")})
	cfg.Tenants = &tenant.Roster{Directory: all}
}

// identities are callers that the gateway has authenticated.
func identities() map[string]tenant.Identity {
	of := func(user string, scopes tenant.Scopes) tenant.Identity {
		return tenant.Identity{Tenant: "acme", Key: "k1", User: user, Scopes: scopes, Settings: granted("acme", "mail")}
	}
	person := func(user string, scopes tenant.Scopes, several *tenant.Approver) tenant.Identity {
		who := of(user, scopes)
		who.Person = tenant.NewPerson("corp", nil)
		who.Person.Approver = several
		return who
	}
	news := of("", tenant.Approve)
	news.Settings = granted("acme", "news")
	unnamed := of("ann", tenant.Approve)
	unnamed.Key = ""
	return map[string]tenant.Identity{
		"key": of("", tenant.Approve), "reader": of("", tenant.Read|tenant.Policy), "news": news, "nobody": unnamed,
		"application": of("ann", tenant.Approve), "person": person("val", tenant.Approve, nil),
		"person who reads": person("ann", tenant.Read, nil),
		"several": person("val", tenant.Approve, &tenant.Approver{Tenants: []tenant.ApproverOf{
			{Settings: granted("acme", "mail"), Scopes: tenant.Approve},
			{Settings: granted("globex", "mail"), Scopes: tenant.Approve | tenant.Policy},
			{Settings: granted("initech", "news"), Scopes: tenant.Approve}}}),
	}
}

func as(ctx context.Context, who string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "test-as", who)
}

// askAll makes an approval of each tenant, by bob, and one of ann in acme.
func (p *ports) askAll(t *testing.T, tool string) map[string]string {
	t.Helper()
	ids := map[string]string{"ann": p.ask(t, approvals.Request{Tenant: "acme", User: "ann", Tool: tool}).ID}
	for _, id := range []string{"other", "initech", "acme", "globex"} {
		ids[id] = p.ask(t, approvals.Request{Tenant: id, User: "bob", Tool: tool}).ID
	}
	return ids
}

// TestCallersOfSeveralTenants: whatever a caller lists, gets or answers, it is of its tenants, of capabilities that
// they may call, and as its scopes there permit.
func TestCallersOfSeveralTenants(t *testing.T) {
	t.Parallel()
	p := serve(t, withTenants)
	const unknown, refused, noRule = "APPROVAL_UNKNOWN", "APPROVER_REQUIRED", "SCOPE_MISSING"
	for i, test := range []struct{ who, tenant, lists, gets, denies, always string }{
		{"several", "", "acme ann globex", "acme ann globex", "acme ann globex", "globex"},
		{"several", "acme", "acme ann", "acme ann", "acme ann", ""},
		{"several", "other", unknown, "", "", ""},
		{"key", "", "acme ann", "acme ann", "acme ann", ""},
		{"key", "globex", unknown, "", "", ""},
		{"reader", "", "acme ann", "acme ann", "", ""},
		{"news", "", "", "", "", ""},
		{"nobody", "", "ann", "ann", "", ""},
		{"application", "", "ann", "acme ann", "acme ann", ""},
		{"person", "", "acme ann", "acme ann", "acme ann", ""},
		{"person who reads", "", "ann", "ann", "", ""},
	} {
		ctx, tool := as(t.Context(), test.who), "t"+strconv.Itoa(i)
		ids, rules := p.askAll(t, tool), p.askAll(t, tool+" always")
		resp, err := p.callers.ListApprovals(ctx, &capgatepb.ListApprovalsRequest{Tenant: test.tenant, Tool: tool})
		var lists, gets, denies, always []string
		if err != nil {
			lists = []string{clienttest.Reason(err)}
		}
		for name := range ids {
			if slices.ContainsFunc(resp.GetApprovals(), func(a *capgatepb.Approval) bool {
				return a.GetId() == ids[name]
			}) {
				lists = append(lists, name)
			}
			if _, err := p.callers.GetApproval(ctx, &capgatepb.GetApprovalRequest{Tenant: test.tenant,
				ApprovalId: ids[name]}); err == nil {
				gets = append(gets, name)
			}
			for _, how := range []struct {
				id, remember string
				done         *[]string
			}{{ids[name], "", &denies}, {rules[name], "always", &always}} {
				_, err := p.callers.Deny(ctx, &capgatepb.DenyRequest{Tenant: test.tenant, ApprovalId: how.id,
					Remember: how.remember, By: "eve"})
				if err == nil {
					*how.done = append(*how.done, name)
				} else if reason := clienttest.Reason(err); reason != unknown && reason != refused && reason != noRule {
					t.Errorf("%s of %s: %v", test.who, name, err)
				}
				if now := p.stateOf(t, name, how.id); (err == nil) != (now.State == approvals.Denied) ||
					now.By == "eve" {
					t.Errorf("%s of %s: %v by %q after %v", test.who, name, now.State, now.By, err)
				}
			}
		}
		for what, got := range map[string][2]string{"lists": {text(lists), test.lists}, "gets": {text(gets), test.gets},
			"denies": {text(denies), test.denies}, "sets a rule": {text(always), test.always}} {
			if got[0] != got[1] {
				t.Errorf("%s at %q %s %q, want %q", test.who, test.tenant, what, got[0], got[1])
			}
		}
	}
}

func text(names []string) string {
	slices.Sort(names)
	return strings.Join(names, " ")
}

// stateOf returns the approval of a tenant, by its name in askAll.
func (p *ports) stateOf(t *testing.T, name, id string) approvals.Approval {
	t.Helper()
	if name == "ann" {
		name = "acme"
	}
	a, err := p.backing.Get(t.Context(), name, id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestEventsOfSeveralTenants: callers and operators get the events of what they list.
func TestEventsOfSeveralTenants(t *testing.T) {
	t.Parallel()
	p := serve(t, withTenants)
	several := watch(as(t.Context(), "several"), t, p.callers, "")
	application := watch(as(t.Context(), "application"), t, p.callers, "")
	web := p.guarded(t, mixed())
	events := source(t.Context(), t, &http.Client{Transport: clienttest.Bound(bearer("mixed"))},
		web.URL+"/v1/approvals/events", "")
	_, _ = events.block()
	_, _ = events.block()
	ids := p.askAll(t, "send")
	for _, want := range []string{"ann", "acme", "globex"} {
		if e := several(); e.GetApproval().GetId() != ids[want] {
			t.Errorf("a caller of several tenants gets %v, want that of %s", e, want)
		}
		if e := events.next(); e.data["id"] != ids[want] {
			t.Errorf("an operator of two tenants gets %v, want that of %s", e, want)
		}
	}
	second := p.ask(t, approvals.Request{Tenant: "acme", User: "ann", Tool: "second"})
	for _, want := range []string{ids["ann"], second.ID} {
		if e := application(); e.GetApproval().GetId() != want {
			t.Errorf("an application that speaks for ann gets %v", e)
		}
	}
}

// mixed returns an operator that may answer in one tenant and read in another.
func mixed() known {
	return known{"mixed": {Tenants: []operator.TenantRoles{{Tenant: "acme", Roles: operator.Approve},
		{Tenant: "globex", Roles: operator.View}}}}
}

// bearer sends a credential with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestOperatorOfTwoTenants: its role in one tenant counts for no other.
func TestOperatorOfTwoTenants(t *testing.T) {
	t.Parallel()
	p := serve(t, withTenants)
	ids := p.askAll(t, "send")
	web := p.guarded(t, mixed())
	for _, test := range []struct {
		method, path, body string
		status             int
		has, not           string
	}{
		{"GET", "", "", 200, ids["globex"], ids["other"]},
		{"GET", "", "", 200, ids["acme"], ids["initech"]},
		{"GET", "?tenant=globex", "", 200, ids["globex"], ids["acme"]},
		{"GET", "?tenant=other", "", 403, "OPERATOR_TENANT", ids["other"]},
		{"GET", "/" + ids["globex"], "", 200, ids["globex"], ""},
		{"GET", "/" + ids["other"], "", 404, "APPROVAL_UNKNOWN", "bob"},
		{"POST", "/" + ids["other"] + ":approve", "{}", 404, "APPROVAL_UNKNOWN", "bob"},
		{"POST", "/" + ids["globex"] + ":approve", "{}", 404, "APPROVAL_UNKNOWN", "bob"},
		{"POST", "/" + ids["acme"] + ":approve", `{"remember":"always"}`, 403, "SCOPE_MISSING", "approved"},
		{"POST", "/" + ids["acme"] + ":approve", "{}", 200, "approved", ""},
	} {
		status, body := web.Ask(t, test.method, "/v1/approvals"+test.path, test.body, "Authorization", "Bearer mixed")
		if status != test.status || !strings.Contains(body, test.has) ||
			test.not != "" && strings.Contains(body, test.not) {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, status, body)
		}
	}
	if now := p.stateOf(t, "globex", ids["globex"]); now.State != approvals.Pending {
		t.Errorf("a viewer's answer: %v", now.State)
	}
}

// TestWatchEndsWithItsCredential: the watch of a caller ends when its credential becomes invalid.
func TestWatchEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	checks, revoked := make(chan func(), 1), new(atomic.Bool)
	p := serve(t, func(cfg *approval.Config) {
		cfg.Follow = func(ctx context.Context, check func(context.Context) bool) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			checks <- func() {
				if !check(ctx) {
					cancel()
				}
			}
			return ctx, cancel
		}
		cfg.StillValid = func(_ context.Context, who *tenant.Identity) bool {
			return who.Key == "k1" && !revoked.Load()
		}
	})
	stream, err := p.callers.WatchApprovals(as(t.Context(), "key"), &capgatepb.WatchApprovalsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	check := check.Received(t, checks, "the watch to follow its credential")
	check()
	a := p.ask(t, approvals.Request{Tenant: "acme", User: "ann"})
	if e, err := stream.Recv(); err != nil || e.GetApproval().GetId() != a.ID {
		t.Fatalf("while the credential is valid: %v, %v", e, err)
	}
	revoked.Store(true)
	check()
	_, err = stream.Recv()
	refusal(t, "a watch after its credential", err, codes.Canceled, "")
}

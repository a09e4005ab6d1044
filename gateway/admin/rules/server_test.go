package rules_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin/rules"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// book is a policy.Rules and a policy.Store in memory.
type book struct {
	mu    sync.Mutex
	rules []policy.Rule
	err   error
}

// fail has changes and questions fail; changes of rules that exist are made all the same. nil ends that.
func (b *book) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *book) index(tenant string, n policy.Name) int {
	return slices.IndexFunc(b.rules, func(r policy.Rule) bool { return r.Tenant == tenant && r.Name == n })
}

func (b *book) Set(_ context.Context, r policy.Rule) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.index(r.Tenant, r.Name); i >= 0 {
		b.rules[i] = r
	} else if b.err == nil {
		b.rules = append(b.rules, r)
	}
	return b.err
}

func (b *book) Delete(_ context.Context, tenant string, n policy.Name) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.index(tenant, n)
	if i >= 0 {
		b.rules = slices.Delete(b.rules, i, i+1)
	}
	return i >= 0, b.err
}

func (b *book) List(_ context.Context, tenant, after string, most int) (page []policy.Rule, next string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.rules {
		if r.Tenant != tenant || r.Tool <= after {
			continue
		}
		if len(page) == most {
			return page, page[most-1].Tool, b.err
		}
		page = append(page, r)
	}
	return page, "", b.err
}

func (b *book) Find(_ context.Context, tenant string, names []policy.Name) ([]policy.Found, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := make([]policy.Found, len(names))
	for i, n := range names {
		if at := b.index(tenant, n); at >= 0 {
			found[i] = policy.Found{Present: true, Verdict: b.rules[at].Verdict}
		}
	}
	return found, b.err
}

// port is an admin API with the rules of a book; nil means no rules.
type port struct {
	*gatewaytest.Services
	client     capgatepb.PoliciesClient
	candidates *book
}

func serve(t *testing.T, b *book) *port {
	t.Helper()
	var own, candidates rules.Rules
	o, second := policy.Options{}, new(book)
	if b != nil {
		own, candidates, o.Store, o.Shadow = b, second, b, second
	}
	decider, err := policy.New(o)
	check.Must(t, err)
	services := gatewaytest.ServeOperators(t,
		rules.New(rules.Config{Rules: own, Candidates: candidates, Decider: decider}))
	return &port{services, capgatepb.NewPoliciesClient(services.Conn), second}
}

func TestRulesByJSON(t *testing.T) {
	t.Parallel()
	p := serve(t, &book{})
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/policies", "", 200, `"policies":[]`},
		{"PUT", "/v1/policies", `{"capability":"weather","tool":"*","policy":"ask","user":"ann"}`, 200,
			`"tenant":"default", "user":"ann"`},
		{"PUT", "/v1/policies", `{"capability":"weather","tool":"*","policy":"allow","user":"ann","name":"tenants/acme/policies/x"}`, 200, `"policy":"allow"`},
		{"PUT", "/v1/policies", `{"capability":"*","tool":"zap","policy":"block","global":true}`, 200,
			`{"global":true`},
		{"GET", "/v1/policies?tenant=default", "", 200,
			`"user":"ann", "capability":"weather", "tool":"*", "policy":"allow", "name":"tenants/default/policies/capability=weather&tool=*&user=ann"`},
		{"GET", "/v1/policies?global=true", "", 200, `"name":"policies/capability=*&tool=zap"`},
		{"GET", "/v1/policies:explain?user=ann&capability=weather&tool=zap", "", 200,
			`"policy":"allow", "level":"user"`},
		{"GET", "/v1/policies:explain?capability=weather&tool=zap", "", 200, `"policy":"block", "level":"global"`},
		{"DELETE", "/v1/policies?user=ann&capability=weather&tool=*", "", 200, `{}`},
		{"DELETE", "/v1/policies?user=ann&capability=weather&tool=*", "", 404, `POLICY_UNKNOWN`},
		{"GET", "/v1/policies:explain?user=ann&capability=weather&tool=x", "", 200,
			`"policy":"block", "level":"default"`},

		{"GET", "/v1/policies:explain?capability=weather&tool=x&candidate=true", "", 200,
			`"policy":"block", "level":"default"`},
		{"PUT", "/v1/policies", `{"capability":"weather","tool":"*","policy":"ask","candidate":true}`, 200,
			`"candidate":true`},
		{"GET", "/v1/policies", "", 200, `"policies":[]`},
		{"GET", "/v1/policies?candidate=true", "", 200,
			`"tool":"*", "policy":"ask", "candidate":true, "name":"tenants/default/candidates/capability=weather&tool=*"`},
		{"GET", "/v1/policies:explain?capability=weather&tool=zap", "", 200,
			`"candidate_policy":"ask", "candidate_level":"tenant"`},
		{"GET", "/v1/policies:explain?capability=weather&tool=zap&candidate=true", "", 200,
			`{"policy":"ask", "level":"tenant"`},
		{"DELETE", "/v1/policies?capability=weather&tool=*", "", 404, `POLICY_UNKNOWN`},
		{"DELETE", "/v1/policies?capability=weather&tool=*&candidate=true", "", 200, `{}`},
		{"GET", "/v1/policies?candidate=true", "", 200, `"policies":[]`},
	} {
		if status, body := p.Ask(t, step.method, step.path, step.body); status != step.status ||
			!strings.Contains(plain(body), plain(step.want)) {
			t.Errorf("%s %s %s: %d %s", step.method, step.path, step.body, status, body)
		}
	}
}

// TestNamesOfAnyWords: any rule's name can be parsed.
func TestNamesOfAnyWords(t *testing.T) {
	t.Parallel()
	p := serve(t, &book{})
	rule := &capgatepb.Policy{Tenant: "a/b", User: "ann/é&tool=x", Agent: "*", Capability: "weather", Tool: "=% *",
		Policy: "ask"}
	_, err := p.client.SetPolicy(t.Context(), &capgatepb.SetPolicyRequest{Policy: rule})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "has no tenants") {
		t.Errorf("a tenant of a gateway without tenants: %v", err)
	}
	resp, err := p.client.SetPolicy(t.Context(), &capgatepb.SetPolicyRequest{Policy: rule, Force: true})
	check.Must(t, err)
	parts := strings.Split(resp.GetPolicy().GetName(), "/")
	about, err := url.ParseQuery(parts[len(parts)-1])
	if err != nil || strings.Join(parts[:3], "/") != "tenants/a%2Fb/policies" || len(parts) != 4 {
		t.Fatal(resp.GetPolicy().GetName(), err, parts)
	}
	for name, want := range map[string]string{"user": rule.GetUser(), "agent": rule.GetAgent(),
		"capability": rule.GetCapability(), "tool": rule.GetTool()} {
		if about.Get(name) != want {
			t.Errorf("%s: %q", name, about.Get(name))
		}
	}
}

// plain is JSON without the blanks that protojson puts in at random.
func plain(s string) string { return strings.ReplaceAll(s, " ", "") }

// oneTool is a catalog with the tool forecast of the capability weather.
type oneTool struct{}

func (oneTool) Capabilities() []string { return []string{"weather"} }

func (oneTool) Inspect(id string) (catalog.Listing, bool) {
	return catalog.Listing{Capability: id, Known: true, Tools: []catalog.Tool{{Tool: manifest.Tool{Name: "forecast"}}}},
		id == "weather"
}

// TestExplainsUnknownTools: an explanation of a call that the catalog does not know says so, where it is not refused.
func TestExplainsUnknownTools(t *testing.T) {
	t.Parallel()
	decider, err := policy.New(policy.Options{})
	check.Must(t, err)
	services := gatewaytest.ServeOperators(t, rules.New(rules.Config{Decider: decider, Catalog: oneTool{}}))
	for query, want := range map[string]string{
		"capability=weather&tool=forecast":          `"level":"default"`,
		"capability=weather&tool=nope":              `TOOL_UNKNOWN`,
		"capability=weather&tool=nope&force=true":   `"unknown":"there is no tool \"nope\"; the capability weather has: forecast"`,
		"capability=wether&tool=forecast&force=1":   `"unknown":"there is no capability \"wether\"`,
		"capability=weather&tool=forecast&force=1&": `"looks":[`,
	} {
		_, body := services.Ask(t, "GET", "/v1/policies:explain?"+query, "")
		if !strings.Contains(plain(body), plain(want)) || !strings.Contains(want, "unknown") &&
			strings.Contains(body, `"unknown"`) {
			t.Errorf("%s: %s", query, body)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 257)
	p := serve(t, &book{})
	for _, body := range []string{
		`{"tool":"x","policy":"allow"}`, `{"capability":"Weather","tool":"x","policy":"allow"}`,
		`{"capability":"weather","policy":"allow"}`,
		`{"capability":"weather","tool":"x"}`, `{"capability":"weather","tool":"x","policy":"ALLOW"}`,
		`{"capability":"weather","tool":"x","policy":"allow","global":true,"user":"ann"}`,
		`{"capability":"weather","tool":"x","policy":"allow","global":true,"tenant":"acme"}`,
		`{"capability":"weather","tool":"` + long +
			`","policy":"allow"}`, `{"capability":"weather","tool":"x","policy":"allow","tenant":"` + long + `"}`,
	} {
		if status, text := p.Ask(t, "PUT", "/v1/policies", body); status != 400 ||
			!strings.Contains(text, "POLICY_INVALID") {
			t.Errorf("%s: %d %s; status %+v", body, status, text, status)
		}
	}
	for _, path := range []string{"?page_size=1001", "?page_size=-1", "?page_token=!", "?global=true&tenant=a",
		":explain?capability=weather", ":explain?tool=x&capability=*"} {
		if status, text := p.Ask(t, "GET", "/v1/policies"+path, ""); status != 400 ||
			!strings.Contains(text, "POLICY_INVALID") {
			t.Errorf("%s: %d %s; status %+v", path, status, text, status)
		}
	}
	for _, body := range []string{"", "{", `{"polcy":1}`, `[]`} {
		if status, text := p.Ask(t, "PUT", "/v1/policies", body); status != 400 {
			t.Errorf("%q: %d %s", body, status, text)
		}
	}
	if status, _ := p.Ask(t, "PUT", "/v1/policies", `{"capability":"weather","tool":"x","policy":"allow"}`, "Origin",
		"https://evil.example", "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("from another site's page: %d", status)
	}
}

// TestPagesHaveEachRuleOnce: pages have each rule once, and in order.
func TestPagesHaveEachRuleOnce(t *testing.T) {
	t.Parallel()
	p := serve(t, &book{})
	for _, tool := range []string{"a", "b", "c", "d", "e"} {
		if _, err := p.client.SetPolicy(t.Context(),
			&capgatepb.SetPolicyRequest{Policy: &capgatepb.Policy{Capability: "weather", Tool: tool,
				Policy: "ask"}}); err != nil {
			t.Fatal(err)
		}
	}
	var tools []string
	for token, pages := "", 0; pages == 0 || token != ""; pages++ {
		resp, err := p.client.ListPolicies(t.Context(), &capgatepb.ListPoliciesRequest{PageSize: 2, PageToken: token})
		if err != nil || len(resp.GetPolicies()) > 2 || pages > 3 {
			t.Fatal(resp, err, pages)
		}
		for _, r := range resp.GetPolicies() {
			tools = append(tools, r.GetTool())
		}
		token = resp.GetNextPageToken()
	}
	if strings.Join(tools, "") != "abcde" {
		t.Errorf("got %q", tools)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	rule := &capgatepb.Policy{Capability: "weather", Tool: "x", Policy: "allow"}
	for name, test := range map[string]struct {
		book   *book
		code   codes.Code
		reason string
	}{
		"no rules":             {nil, codes.FailedPrecondition, "POLICIES_OFF"},
		"full":                 {&book{err: policy.ErrFull}, codes.ResourceExhausted, "POLICIES_FULL"},
		"Redis is unavailable": {&book{err: errors.New("away")}, codes.Unavailable, "POLICIES_UNAVAILABLE"},
	} {
		p := serve(t, test.book)
		_, set := p.client.SetPolicy(t.Context(), &capgatepb.SetPolicyRequest{Policy: rule})
		_, list := p.client.ListPolicies(t.Context(), &capgatepb.ListPoliciesRequest{})
		_, del := p.client.DeletePolicy(t.Context(), &capgatepb.DeletePolicyRequest{Capability: "weather", Tool: "x"})
		for way, err := range map[string]error{"set": set, "list": list, "delete": del} {
			if got := clienttest.Reason(err); status.Code(err) != test.code || got != test.reason {
				t.Errorf("%s, %s: %v, %s", name, way, err, got)
			}
		}
	}
	p := serve(t, nil)
	resp, err := p.client.ExplainPolicy(t.Context(), &capgatepb.ExplainPolicyRequest{Capability: "weather", Tool: "x"})
	if err != nil || resp.GetPolicy() != call.Block.String() || len(resp.GetLooks()) != 3 {
		t.Errorf("without rules: %v, %v", resp, err)
	}
}

// TestOperatorOfOneTenant: it sees, explains and changes the rules of its tenant, and none of all tenants.
func TestOperatorOfOneTenant(t *testing.T) {
	t.Parallel()
	b := &book{rules: []policy.Rule{
		{Name: policy.Name{Capability: "weather", Tool: "x"}, Verdict: call.Block},
		{Tenant: "other", Name: policy.Name{Capability: "weather", Tool: "x"}, Verdict: call.Block},
		{Tenant: "default", Name: policy.Name{Capability: "weather", Tool: policy.Any}, Verdict: call.Ask},
	}}
	decider, err := policy.New(policy.Options{Store: b})
	check.Must(t, err)
	web := gatewaytest.ServeGuarded(t, gatewaytest.Operator{Roles: operator.Admin, Tenants: []string{"default"}},
		rules.New(rules.Config{Rules: b, Candidates: new(book), Decider: decider}))
	for _, test := range []struct {
		line, body string
		status     int
		has        string
	}{
		{"GET /v1/policies", "", 200, `"tool":"*"`},
		{"GET /v1/policies?query=WEATH", "", 200, `"tool":"*"`},
		{"GET /v1/policies?query=other", "", 200, `"policies":[]`},
		{"GET /v1/policies?tenant=other", "", 403, "OPERATOR_TENANT"},
		{"GET /v1/policies?global=true", "", 403, "OPERATOR_TENANT"},
		{"GET /v1/policies:explain?capability=weather&tool=x", "", 200, `"policy":"ask","level":"tenant"`},
		{"GET /v1/policies:explain?capability=weather&tool=x&tenant=other", "", 403, "OPERATOR_TENANT"},
		{"PUT /v1/policies", `{"capability":"weather","tool":"x","policy":"allow","global":true}`, 403,
			"OPERATOR_TENANT"},
		{"PUT /v1/policies", `{"capability":"weather","tool":"x","policy":"allow","tenant":"other"}`, 403,
			"OPERATOR_TENANT"},
		{"DELETE /v1/policies?capability=weather&tool=x&global=true", "", 403, "OPERATOR_TENANT"},
		{"DELETE /v1/policies?capability=weather&tool=x&tenant=other", "", 403, "OPERATOR_TENANT"},
	} {
		method, path, _ := strings.Cut(test.line, " ")
		if status, body := web.Ask(t, method, path, test.body); status != test.status ||
			!strings.Contains(plain(body), test.has) || strings.Contains(plain(body), `"level":"global"`) {
			t.Errorf("%s: %d %s, want %d %s", test.line, status, body, test.status, test.has)
		}
	}
}

// TestWhoSetARule: is shown, and cannot be claimed.
func TestWhoSetARule(t *testing.T) {
	t.Parallel()
	p := serve(t, &book{rules: []policy.Rule{{Tenant: "default", Name: policy.Name{Capability: "weather", Tool: "x"},
		By: "bob"}}})
	if _, body := p.Ask(t, "GET", "/v1/policies", ""); !strings.Contains(plain(body), `bob"`) {
		t.Errorf("listed as %s", body)
	}
	if status, body := p.Ask(t, "PUT", "/v1/policies",
		`{"capability":"weather","tool":"x","policy":"allow","set_by":"eve"}`); status != 200 ||
		strings.Contains(body, "eve") {
		t.Errorf("%d %s; status %+v", status, body, status)
	}
	if _, body := p.Ask(t, "GET", "/v1/policies", ""); strings.Contains(body, "eve") {
		t.Errorf("listed as %s", body)
	}
}

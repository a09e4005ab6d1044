package tenant_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// authenticateAt looks a caller up as the gateway does: in memory, then where tenants are.
func authenticateAt(t *testing.T, all *tenant.Authenticators, c tenant.Credentials) (tenant.Identity, *call.Refusal) {
	t.Helper()
	who, known, refusal := all.Lookup(c)
	if !known {
		who, refusal = all.Authenticate(t.Context(), c)
	}
	if refusal != nil {
		return who, refusal
	}
	return c.At.Narrow(who, c)
}

// TestListeners: callers without a credential are of the listener's tenant, wherever its settings are.
func TestListeners(t *testing.T) {
	t.Parallel()
	all := tenant.NewAuthenticators(tenant.Sources{File: tenant.NewKeys(nil), Listeners: tenant.NewListeners(some{
		"acme": {ID: "acme"}, "closed": {ID: "closed", Disabled: true}})})
	at := func(id string, change func(*tenant.Listener)) *tenant.Listener {
		l := &tenant.Listener{Tenant: id, Scopes: tenant.ListenerScopes}
		if change != nil {
			change(l)
		}
		return l
	}
	ann := func(l *tenant.Listener) { l.User, l.Agent = "ann", "planner" }
	free := func(l *tenant.Listener) { l.Asserts = tenant.User | tenant.Agent }
	for name, test := range map[string]struct {
		at          *tenant.Listener
		user, agent string // named by the caller
		want        string // tenant, user and agent, or the reason
	}{
		"a tenant":              {at("acme", nil), "", "", "acme  "},
		"one that is asked for": {at("remote", nil), "", "", "remote  "},
		"none":                  {at("nowhere", nil), "", "", "TENANT_UNKNOWN"},
		"a disabled one":        {at("closed", nil), "", "", "TENANT_DISABLED"},
		"names":                 {at("acme", ann), "", "", "acme ann planner"},
		"the same names":        {at("acme", ann), "ann", "planner", "acme ann planner"},
		"another user":          {at("acme", ann), "bob", "", "LISTENER_CONFLICT"},
		"another agent":         {at("acme", ann), "", "bob", "LISTENER_CONFLICT"},
		"names that count":      {at("acme", free), "bob", "coder", "acme bob coder"},
		"names that do not":     {at("acme", nil), "bob", "coder", "acme  "},
		"a long name":           {at("acme", free), strings.Repeat("x", 257), "", "IDENTITY_INVALID"},
	} {
		who, refusal := authenticateAt(t, all, tenant.Credentials{User: test.user, Agent: test.agent, At: test.at})
		got := strings.Join([]string{who.Tenant, who.User, who.Agent}, " ")
		if refusal != nil {
			got = refusal.Reason
		}
		if got != test.want || refusal == nil && (who.Scopes != tenant.ListenerScopes || who.At != test.at ||
			who.Key != "" || who.Settings == nil) {
			t.Errorf("%s: %q, %+v, want %q", name, got, who, test.want)
		}
	}
	if _, refusal := authenticateAt(t, all, tenant.Credentials{Credential: "x", At: at("acme", nil)}); refusal == nil ||
		refusal.Reason != "CREDENTIAL_INVALID" {
		t.Errorf("a credential that is none: %v", refusal)
	}
	for p := tenant.TenantPart; p <= tenant.DialectPart; p++ {
		if r := tenant.RefuseAt(p); r.Reason != "LISTENER_CONFLICT" || r.Metadata["field"] == "" {
			t.Errorf("%+v", r)
		}
	}
	counts := map[tenant.Result]int64{}
	all.Each(func(k tenant.Kind, r tenant.Result, n int64) {
		if k == tenant.KindListener {
			counts[r] += n
		}
	})
	if counts[tenant.FromMemory] != 7 || counts[tenant.FromSource] != 1 || counts[tenant.Rejected] != 3 {
		t.Errorf("%v", counts)
	}
}

// TestNarrow: a listener grants nothing.
func TestNarrow(t *testing.T) {
	t.Parallel()
	grants, err := tenant.ParseGrants([]string{"a", "b"})
	check.Must(t, err)
	key := tenant.Identity{Tenant: "acme", User: "ann", Key: "k", Scopes: tenant.Invoke | tenant.Approve,
		Asserts: tenant.User | tenant.Agent, Settings: &tenant.Settings{ID: "acme", Capabilities: grants}}
	l := &tenant.Listener{Capability: "b", Agent: "planner", Scopes: tenant.Invoke | tenant.Read, Limited: true}
	who, refusal := l.Narrow(key, tenant.Credentials{})
	if refusal != nil || who.Scopes != tenant.Invoke || who.Agent != "planner" || who.Asserts != tenant.User {
		t.Errorf("%+v, %v", who, refusal)
	}
	hidden := &tenant.Identity{Settings: key.Settings, At: &tenant.Listener{Capability: "c"}}
	for name, test := range map[string]struct {
		who  *tenant.Identity
		sees string
	}{"listener": {&who, "b"}, "hidden": {hidden, ""}, "key": {&key, "ab"}} {
		for _, capability := range []string{"a", "b", "c"} {
			if got := test.who.Sees(capability); got != strings.Contains(test.sees, capability) {
				t.Errorf("%s sees %s: %t", name, capability, got)
			}
		}
	}
	if who, refusal = (&tenant.Listener{User: "bob"}).Narrow(key, tenant.Credentials{}); refusal == nil ||
		who.Scopes != 0 || who.Tenant != "acme" || who.Key != "k" || who.Settings != key.Settings {
		t.Errorf("the key's own user: %+v, %v", who, refusal)
	}
	long := tenant.Credentials{User: strings.Repeat("a", 300)}
	if who, refusal = key.Assert(long, tenant.User); refusal == nil || who.Settings != key.Settings || who.User != "" {
		t.Errorf("a name that is too long: %+v, %v", who, refusal)
	}
	who, refusal = (&tenant.Listener{Tenant: "globex"}).Narrow(key, tenant.Credentials{})
	if refusal == nil || refusal.Metadata["field"] != "tenant" || who.Scopes != 0 {
		t.Errorf("another tenant's listener: %+v, %v", who, refusal)
	}
	who, refusal = (&tenant.Listener{User: "ann"}).Narrow(key, tenant.Credentials{})
	if refusal != nil || who.User != "ann" || who.Asserts != tenant.Agent {
		t.Errorf("the user of all calls may be asserted later: %+v, %v", who, refusal)
	}
	if who, _ = (&tenant.Listener{Scopes: tenant.Read}).Narrow(key, tenant.Credentials{}); who.Scopes != key.Scopes {
		t.Errorf("the default limits no credential: %v", who.Scopes)
	}
	single, _, _ := tenant.Single{}.Lookup(tenant.Credentials{})
	if who, _ = (&tenant.Listener{Scopes: tenant.ListenerScopes}).Narrow(single, tenant.Credentials{}); who.Scopes.
		Any(tenant.EngineAdmin) || !who.Scopes.Any(tenant.EngineAgent) {
		t.Errorf("without tenants: %v", who.Scopes)
	}
}

package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestParseIssuers(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("f", []byte(`
fleets: [{capability: a, backends: []}]
tenants: [{id: acme, capabilities: ['*']}]
issuers:
  - {name: plain, issuer: "https://a.example.com", audiences: [capgate]}
  - name: all
    issuer: https://b.example.com/realms/main
    audiences: [capgate, https://capgate.example.com]
    jwks_url: http://127.0.0.1:9000/keys?v=2
    algorithms: [ES512]
    leeway: 0s
    max_lifetime: 1h
    ca_file: /ca
    id_tokens: true
    tenant: acme
    asserts: [user]
    claims: {user: email, agent: act.sub, scopes: realm_access.roles}
    scope_names: {"tools:call": [invoke, read], boss: [approve]}
    required_claims: {email_verified: true, level: 3}
  - {name: fixed, issuer: "http://b.example.com/", insecure: true, audiences: [a], scopes: [invoke],
     claims: {tenant: org.id}}
`))
	check.Must(t, err)
	standard := []string{"RS256", "PS256", "ES256", "EdDSA"}
	want := []token.Issuer{
		{
			Name: "plain", URL: "https://a.example.com", Audiences: []string{"capgate"}, Algorithms: standard,
			Leeway: time.Minute, Scopes: tenant.Invoke | tenant.Read,
			Claims: token.Claims{Tenant: "tenant_id", User: "sub"},
		},
		{
			Name: "all", URL: "https://b.example.com/realms/main",
			Audiences: []string{"capgate", "https://capgate.example.com"}, JWKS: "http://127.0.0.1:9000/keys?v=2",
			Algorithms: []string{"ES512"}, MaxLifetime: time.Hour,
			CAFile: "/ca", IDTokens: true, Tenant: "acme",
			Asserts: tenant.User, Claims: token.Claims{User: "email", Agent: "act.sub", Scopes: "realm_access.roles"},
			ScopeNames: map[string]tenant.Scopes{"tools:call": tenant.Invoke | tenant.Read, "boss": tenant.Approve},
			Required:   map[string]string{"email_verified": "true", "level": "3"},
		},
		{
			Name: "fixed", URL: "http://b.example.com/", Audiences: []string{"a"}, Algorithms: standard,
			Leeway: time.Minute, Insecure: true, Scopes: tenant.Invoke,
			Claims: token.Claims{Tenant: "org.id", User: "sub"},
		},
	}
	for i := range want {
		if !reflect.DeepEqual(got.Issuers[i], want[i]) {
			t.Errorf("got  %+v\nwant %+v", got.Issuers[i], want[i])
		}
	}
}

func TestParseIssuersErrors(t *testing.T) {
	t.Parallel()
	const fleet = "fleets: [{capability: a, backends: []}]\n"
	with := func(more string) string {
		return fleet + "tenants: [{id: acme, capabilities: ['*']}]\nissuers: [{name: a, issuer: " +
			"'https://a.example.com', audiences: [b], " + more + "}]\n"
	}
	for name, test := range map[string]struct{ file, want string }{
		"no tenants": {fleet + "issuers: [{name: a, issuer: 'https://a.example.com', audiences: [b]}]",
			"f:2: issuers: there are no tenants; add tenants"},
		"nothing": {fleet + "tenants: []\nissuers: [{}]", "issuers[0].name: required"},
		"no url":  {fleet + "tenants: []\nissuers: [{name: a, audiences: [b]}]", "issuers[0].issuer: required"},
		"no audience": {fleet + "tenants: []\nissuers: [{name: a, issuer: 'https://a.example.com'}]",
			"issuers[0].audiences: required"},
		"an empty audience": {fleet +
			"tenants: []\nissuers: [{name: a, issuer: 'https://a.example.com', audiences: ['']}]",
			"audiences[0]: must be a string that is not empty"},
		"a name with blanks": {fleet +
			"tenants: []\nissuers: [{name: a b, issuer: 'https://a.example.com', audiences: [b]}]",
			`issuers[0].name: "a b" is not a name`},
		"cleartext": {fleet +
			"tenants: []\nissuers: [{name: a, issuer: 'http://a.example.com', audiences: [b]}]",
			"issuers[0].issuer: is cleartext HTTP"},
		"a query": {fleet +
			"tenants: []\nissuers: [{name: a, issuer: 'https://a.example.com?a=b', audiences: [b]}]",
			"issuers[0].issuer: must have no query"},
		"no scheme": {fleet + "tenants: []\nissuers: [{name: a, issuer: a.example.com, audiences: [b]}]",
			"issuers[0].issuer: is not an HTTP URL"},
		"twice": {fleet +
			"tenants: []\nissuers:\n- {name: a, issuer: 'https://a.example.com', audiences: [b]}\n- {name: a, " +
			"issuer: 'https://a.example.com', audiences: [b]}",
			"f:5: issuers[1].issuer: https://a.example.com is already at issuers[0].issuer, in line 4"},
		"keys in cleartext": {with("jwks_url: 'http://a.example.com/keys'"), "jwks_url: is cleartext HTTP"},
		"keys with a password": {with("jwks_url: 'https://u:hunter2@a.example.com/keys'"),
			"jwks_url: must have neither a user"},
		"none":               {with("algorithms: [RS256, none]"), `algorithms[1]: "none" is not possible`},
		"a shared secret":    {with("algorithms: [HS256]"), `algorithms[0]: "HS256" is not possible; it must be RS`},
		"a long leeway":      {with("leeway: 6m"), `leeway: "6m" is not possible; it must be a duration of at most 5m`},
		"a tenant nobody is": {with("tenant: globex"), "f:3: issuers[0].tenant: there is no tenant globex"},
		"two tenants":        {with("tenant: acme, claims: {tenant: t}"), "tenant: claims.tenant is set, too"},
		"two scopes":         {with("scopes: [invoke], claims: {scopes: t}"), "scopes: claims.scopes is set, too"},
		"names of no claim":  {with("scope_names: {a: [invoke]}"), "scope_names: needs claims.scopes"},
		"a bad scope": {with("claims: {scopes: s}, scope_names: {a: [root]}"),
			`scope_names.a[0]: "root" is not possible`},
		"names that are none": {with("claims: {scopes: s}, scope_names: [a]"),
			"scope_names: must be a mapping, as in {name: value}"},
		"names twice": {with("claims: {scopes: s}, scope_names: {a: [read], a: [invoke]}"),
			"scope_names.a: given twice"},
		"a bad assertion": {with("asserts: [tenant]"),
			`asserts[0]: "tenant" is not possible; it must be user or agent`},
		"a claim that is none": {with("required_claims: {'': a}"), "the name is missing"},
		"an unknown claim":     {with("claims: {email: a}"), "claims.email: unknown field"},
		"a list for a claim":   {with("required_claims: {a: [b]}"), "required_claims.a: must be a string"},
	} {
		_, err := config.Parse("f", []byte(test.file))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
}

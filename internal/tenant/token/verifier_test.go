package token_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

func TestGoodTokens(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, nil))
	now := time.Now()
	for name, change := range map[string]map[string]any{
		"plain": nil, "aud among others": {"aud": []string{"other", "capgate"}}, "no iat": {"iat": nil},
		"fractions":                 {"exp": float64(now.Unix()) + 3600.5},
		"expired within the leeway": {"exp": now.Add(-30 * time.Second).Unix()},
		"nbf within the leeway":     {"nbf": now.Add(30 * time.Second).Unix()},
		"iat within the leeway":     {"iat": now.Add(30 * time.Second).Unix()},
		"exp as 1e10":               {"exp": json.RawMessage("1e10")},
		"a nonce":                   {"nonce": "n"}, "typ of Keycloak": {"typ": "Bearer"},
	} {
		for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
			raw := i.TokenBy(t, alg, change)
			for range 2 { // first in the background, then from memory
				if who, reason := ask(t, v, raw); reason != "" ||
					withoutPerson(who) != (tenant.Identity{Tenant: "acme", User: "ann", Key: "corp",
						Scopes: tenant.Invoke, Settings: acme}) {
					t.Errorf("%s, %s: %+v, %s", name, alg, who, reason)
				}
			}
		}
	}
	kid := i.KID(t, "ES256")
	for name, header := range map[string]map[string]any{
		"no kid": {"alg": "ES256"}, "typ JWT": {"alg": "ES256", "typ": "JWT", "kid": kid},
		"typ in full":                        {"alg": "ES256", "typ": "application/at+jwt", "kid": kid},
		"names a key, which nobody looks at": {"alg": "ES256", "kid": kid, "jku": "https://127.0.0.1:1/"},
	} {
		want(t, v, name, i.Sign(t, "ES256", header, i.Claims(nil)), "")
	}
	if n := i.Requests(t); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// TestHostileTokens: none is accepted, before or after a good one, and no keys are fetched from an attacker.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	i, attacker := issuertest.Start(t), issuertest.Start(t)
	v := start(t, nil, configOf(i, nil))
	forms := i.Hostile(t, attacker.URL)
	for range 2 {
		for name, raw := range forms {
			reason := "CREDENTIAL_INVALID"
			if name == "expired" {
				reason = "CREDENTIAL_EXPIRED"
			}
			want(t, v, name, raw, reason)
		}
		want(t, v, "a good one", i.Token(t, nil), "")
	}
	want(t, v, "another issuer's", attacker.Token(t, nil), "CREDENTIAL_INVALID")
	want(t, v, "in the name of the issuer", attacker.Token(t, map[string]any{"iss": i.URL}), "CREDENTIAL_INVALID")
	if n := attacker.Requests(t); n != 0 {
		t.Errorf("the attacker was asked %d times", n)
	}
	if n := i.Requests(t); n > 1+3 {
		t.Errorf("the issuer was asked %d times", n)
	}
	t.Logf("%d forms", len(forms))
}

func TestClaims(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	mapped := func(c *token.Issuer) {
		c.Claims = token.Claims{User: "https://example.com/user", Agent: "act.sub", Scopes: "realm_access.roles"}
		c.Tenant, c.Asserts = "globex", tenant.User
		c.ScopeNames = map[string]tenant.Scopes{"caller": tenant.Invoke, "may read": tenant.Read,
			"boss": tenant.Approve | tenant.Policy}
		c.Required = map[string]string{"email_verified": "true", "groups": "agents", "level": "3"}
		c.MaxLifetime = 2 * time.Hour
	}
	v := start(t, nil, configOf(i, mapped))
	base := map[string]any{
		"https://example.com/user": "ann", "act": map[string]any{"sub": "bot"},
		"realm_access":   map[string]any{"roles": []string{"caller", "may read", "x"}},
		"email_verified": true, "groups": []string{"people", "agents"}, "level": 3, "tenant_id": "acme",
	}
	good := tenant.Identity{Tenant: "globex", User: "ann", Agent: "bot", Key: "corp",
		Scopes: tenant.Invoke | tenant.Read, Asserts: tenant.User, Settings: globex}
	with := func(f func(*tenant.Identity)) tenant.Identity {
		who := good
		f(&who)
		return who
	}
	now := time.Now()
	for name, test := range map[string]struct {
		change map[string]any
		says   tenant.Credentials
		want   tenant.Identity
		reason string
	}{
		"all": {nil, tenant.Credentials{}, good, ""},
		"says its user": {nil, tenant.Credentials{User: "bob", Agent: "eve"},
			with(func(w *tenant.Identity) { w.User, w.Subject = "bob", "ann" }), ""},
		"says too much": {nil, tenant.Credentials{User: strings.Repeat("a", 257)},
			tenant.Identity{Tenant: "globex", Key: "corp", Settings: globex}, "IDENTITY_INVALID"},
		"no agent": {map[string]any{"act": nil}, tenant.Credentials{},
			with(func(w *tenant.Identity) { w.Agent = "" }), ""},
		"agent is a number": {map[string]any{"act": map[string]any{"sub": 1}}, tenant.Credentials{}, tenant.Identity{},
			"CREDENTIAL_INVALID"},
		"roles in one text": {map[string]any{"realm_access": map[string]any{"roles": "caller boss"}},
			tenant.Credentials{}, with(func(w *tenant.Identity) {
				w.Scopes = tenant.Invoke | tenant.Approve | tenant.Policy
			}), ""},
		"a role is two words": {map[string]any{"realm_access": map[string]any{"roles": []string{"caller boss"}}},
			tenant.Credentials{}, with(func(w *tenant.Identity) { w.Scopes = 0 }), ""},
		"no roles": {map[string]any{"realm_access": nil}, tenant.Credentials{},
			with(func(w *tenant.Identity) { w.Scopes = 0 }), ""},
		"roles are numbers": {map[string]any{"realm_access": map[string]any{"roles": []int{1}}}, tenant.Credentials{},
			tenant.Identity{}, "CREDENTIAL_INVALID"},
		"not verified": {map[string]any{"email_verified": false}, tenant.Credentials{}, tenant.Identity{},
			"CREDENTIAL_INVALID"},
		"verified, in words": {map[string]any{"email_verified": "true"}, tenant.Credentials{}, good, ""},
		"not of the group": {map[string]any{"groups": []string{"people"}}, tenant.Credentials{}, tenant.Identity{},
			"CREDENTIAL_INVALID"},
		"no group":      {map[string]any{"groups": nil}, tenant.Credentials{}, tenant.Identity{}, "CREDENTIAL_INVALID"},
		"another level": {map[string]any{"level": 33}, tenant.Credentials{}, tenant.Identity{}, "CREDENTIAL_INVALID"},
		"lives too long": {map[string]any{"exp": now.Add(3 * time.Hour).Unix()}, tenant.Credentials{},
			tenant.Identity{}, "CREDENTIAL_INVALID"},
		"lives on, no iat": {map[string]any{"exp": now.Add(3 * time.Hour).Unix(), "iat": nil}, tenant.Credentials{},
			tenant.Identity{}, "CREDENTIAL_INVALID"},
	} {
		claims := map[string]any{}
		for _, of := range []map[string]any{base, test.change} {
			for k, v := range of {
				claims[k] = v
			}
		}
		test.says.Credential = i.Token(t, claims)
		for range 2 {
			if who, reason := claim(t, v, test.says); withoutPerson(who) != test.want || reason != test.reason {
				t.Errorf("%s: %+v, %q", name, who, reason)
			}
		}
	}
}

func withoutPerson(who tenant.Identity) tenant.Identity {
	who.Person, who.Validity = nil, nil
	return who
}

// TestGroups: the groups of a token are those of its claim, whatever its form; anything else in it gives none.
func TestGroups(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, func(c *token.Issuer) { c.Claims.Groups = "realm_access.groups" }))
	for name, test := range map[string]struct {
		claim any
		want  []string
	}{
		"a list":   {[]string{"leads", "all hands"}, []string{"all hands", "leads"}},
		"words":    {"b a", []string{"a", "b"}},
		"a number": {3, nil}, "an object": {map[string]any{"a": true}, nil}, "none": {nil, nil},
		"mixed": {[]any{1, "a", nil, map[string]any{"b": 1}}, []string{"a"}},
	} {
		raw := i.Token(t, map[string]any{"realm_access": map[string]any{"groups": test.claim}})
		for range 2 {
			who, reason := ask(t, v, raw)
			if reason != "" || who.Person == nil || who.Person.Issuer != "corp" ||
				!slices.Equal(who.Groups(), test.want) {
				t.Errorf("%s: %+v, %s", name, who.Person, reason)
			}
		}
	}
	plain := start(t, nil, configOf(i, nil))
	if who, reason := ask(t, plain, i.Token(t, map[string]any{"groups": []string{"leads"}})); reason != "" ||
		len(who.Groups()) != 0 {
		t.Errorf("without claims.groups: %v, %s", who.Groups(), reason)
	}
}

// TestAlgorithms: an issuer's key is not used with an algorithm that the configuration does not list.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, func(c *token.Issuer) { c.Algorithms = []string{"ES256"} }))
	want(t, v, "listed", i.TokenBy(t, "ES256", nil), "")
	if _, refusal := v.Operator(t.Context(), i.TokenBy(t, "ES256", nil)); refusal != nil {
		t.Errorf("an operator's token, listed: %v", refusal)
	}
	for _, alg := range []string{"RS256", "EdDSA"} {
		want(t, v, alg, i.TokenBy(t, alg, nil), "CREDENTIAL_INVALID")
		if who, refusal := v.Operator(t.Context(), i.TokenBy(t, alg, nil)); refusal == nil {
			t.Errorf("an operator's token, %s: %+v", alg, who)
		}
	}
	client := token.Client{Issuer: "corp", ID: "gate"} // its ID tokens have ES256
	if _, err := signIn(t, v, i, client); err != nil {
		t.Errorf("an ID token, listed: %v", err)
	}
	other := start(t, nil, configOf(i, func(c *token.Issuer) { c.Algorithms = []string{"RS256"} }))
	if who, err := signIn(t, other, i, client); err == nil {
		t.Errorf("an ID token: %+v", who)
	}
}

// TestDisabledTenant: a valid token of a disabled tenant is recognized as such.
func TestDisabledTenant(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, nil))
	want(t, v, "switched off", i.Token(t, map[string]any{"tenant_id": "idle"}), "TENANT_DISABLED")
}

// elsewhere is a directory that must be asked, and may be unavailable.
type elsewhere struct {
	*tenant.Directory
	unavailable atomic.Bool
}

func (e *elsewhere) Lookup(string) (*tenant.Settings, bool) { return nil, false }

func (e *elsewhere) Settings(ctx context.Context, id string) (*tenant.Settings, *call.Refusal) {
	if e.unavailable.Load() {
		return nil, &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_UNAVAILABLE"}
	}
	return e.Directory.Settings(ctx, id)
}

// TestTenantsElsewhere: a token is verified once, and its tenant looked up on each miss.
func TestTenantsElsewhere(t *testing.T) {
	t.Parallel()
	i, tenants := issuertest.Start(t), &elsewhere{Directory: directory()}
	v := startWith(t, tenants, token.Options{}, configOf(i, nil))
	raw := i.Token(t, nil)
	for _, unavailable := range []bool{false, true, false} {
		tenants.unavailable.Store(unavailable)
		want(t, v, "asked", raw, map[bool]string{true: "IDENTITY_UNAVAILABLE"}[unavailable])
		want(t, v, "of no tenant", i.Token(t, map[string]any{"tenant_id": "nobody"}),
			map[bool]string{true: "IDENTITY_UNAVAILABLE", false: "CREDENTIAL_INVALID"}[unavailable])
	}
	tenants.Replace(map[string]*tenant.Settings{"acme": idle})
	want(t, v, "switched off meanwhile", raw, "TENANT_DISABLED")
}

// TestBoundedMemory: evicted tokens are verified again.
func TestBoundedMemory(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := startWith(t, directory(), token.Options{Cache: 32}, configOf(i, nil))
	for n := range 100 {
		want(t, v, "one of many", i.Token(t, map[string]any{"jti": n}), "")
	}
	if n := v.Len(); n == 0 || n > 32 {
		t.Errorf("%d tokens are known, of 32 at most", n)
	}
}

// TestExpiry: a cached token expires, including the leeway.
func TestExpiry(t *testing.T) {
	t.Parallel()
	i, clock := issuertest.Start(t), clocktest.New(time.Now())
	v := start(t, clock, configOf(i, nil))
	raw := i.Token(t, map[string]any{"exp": clock.Now().Add(10 * time.Minute).Unix()})
	for _, step := range []struct {
		more   time.Duration
		reason string
	}{{0, ""}, {10 * time.Minute, ""}, {time.Minute, "CREDENTIAL_EXPIRED"}, {time.Hour, "CREDENTIAL_EXPIRED"}} {
		clock.Add(step.more)
		want(t, v, step.more.String(), raw, step.reason)
	}
}

// TestExactExpiry: a token that is cached, and one that is not, is valid until the leeway after its end is over.
func TestExactExpiry(t *testing.T) {
	t.Parallel()
	i, now := issuertest.Start(t), clocktest.New(time.Now())
	v := startWith(t, directory(), token.Options{Now: now.Now}, configOf(i, nil))
	end := time.Unix(now.Now().Add(10*time.Minute).Unix(), 0)
	claims := map[string]any{"exp": end.Unix()}
	raw, fresh := i.Token(t, claims), i.TokenBy(t, "RS256", claims)
	want(t, v, "at first", raw, "")
	now.Set(end.Add(time.Minute - 1))
	want(t, v, "before the end, from memory", raw, "")
	now.Set(end.Add(time.Minute))
	want(t, v, "at the end, from memory", raw, "CREDENTIAL_EXPIRED")
	want(t, v, "at the end", fresh, "CREDENTIAL_EXPIRED")
	now.Set(end.Add(time.Minute - 1))
	want(t, v, "before the end", fresh, "")
}

// TestStillValid: what follows a caller learns of the end of its token, of the key that signed it, and of its tenant;
// while the tenants are unavailable it goes on.
func TestStillValid(t *testing.T) {
	t.Parallel()
	i, now, tenants := issuertest.Start(t), clocktest.New(time.Now()), &elsewhere{Directory: directory()}
	v := startWith(t, tenants, token.Options{Now: now.Now}, configOf(i, nil))
	end := time.Unix(now.Now().Add(10*time.Minute).Unix(), 0)
	follow := func(raw string) func(what string, want bool) {
		who, reason := ask(t, v, raw)
		if reason != "" || who.Validity == nil {
			t.Fatalf("%+v, %s", who, reason)
		}
		return func(what string, want bool) {
			t.Helper()
			if who.Validity.StillValid(t.Context()) != want {
				t.Errorf("%s: valid %t", what, !want)
			}
		}
	}
	short, long := follow(i.Token(t, map[string]any{"exp": end.Unix()})), follow(i.Token(t, nil))
	now.Set(end.Add(time.Minute - 1)) // the leeway is a minute
	short("before its end", true)
	now.Set(end.Add(time.Minute))
	short("at its end", false)
	long("a longer one", true)
	tenants.Replace(map[string]*tenant.Settings{"acme": idle})
	long("the tenant is disabled", false)
	tenants.unavailable.Store(true)
	long("the tenants are unavailable", true)
	tenants.unavailable.Store(false)
	tenants.Replace(map[string]*tenant.Settings{"acme": acme})
	long("the tenant is enabled", true)
	i.Rotate(t, false)
	want(t, v, "the new key's", i.Token(t, nil), "")
	long("its key was withdrawn", false)
}

// TestAddressOfAnOperator: an address that the issuer has not verified names no operator.
func TestAddressOfAnOperator(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, func(c *token.Issuer) { c.Claims.User = "email" }))
	for verified, want := range map[any]bool{true: true, "true": true, nil: true, false: false, "false": false} {
		raw := i.Token(t, map[string]any{"email": "ann@example.com", "email_verified": verified})
		if who, refusal := v.Operator(t.Context(), raw); (refusal == nil) != want ||
			want && who.User != "ann@example.com" {
			t.Errorf("email_verified %v: %+v, %v", verified, who, refusal)
		}
	}
}

// TestSeveralIssuers: iss selects the issuer, and no other issuer's key or rule applies.
func TestSeveralIssuers(t *testing.T) {
	t.Parallel()
	a, b := issuertest.Start(t), issuertest.Start(t)
	ofB := configOf(b, func(c *token.Issuer) {
		c.Name, c.Audiences, c.JWKS, c.Tenant, c.Claims.Tenant = "partner", []string{"partners"}, b.URL+
			"/keys", "globex", ""
	})
	v := start(t, nil, configOf(a, nil), ofB)
	want(t, v, "a", a.Token(t, nil), "")
	who, reason := ask(t, v, b.Token(t, map[string]any{"aud": "partners"}))
	if reason != "" || who.Tenant != "globex" || who.Key != "partner" {
		t.Errorf("%+v, %s", who, reason)
	}
	want(t, v, "b for a's audience", b.Token(t, nil), "CREDENTIAL_INVALID")
	want(t, v, "b says that it is a", b.Token(t, map[string]any{"iss": a.URL}), "CREDENTIAL_INVALID")
	want(t, v, "a says that it is b", a.Token(t, map[string]any{"iss": b.URL, "aud": "partners"}), "CREDENTIAL_INVALID")

	raw, rawB := a.Token(t, nil), b.Token(t, map[string]any{"aud": "partners"})
	want(t, v, "a again", raw, "")
	want(t, v, "b again", rawB, "")
	fetched := a.Requests(t)
	v.Replace([]token.Issuer{configOf(a, nil), ofB})
	if _, known, _ := v.Lookup(tenant.Credentials{Credential: raw}); !known {
		t.Error("the same configuration made somebody forgotten")
	}
	v.Replace([]token.Issuer{configOf(a, func(c *token.Issuer) { c.Audiences = []string{"else"} })})
	want(t, v, "another audience", raw, "CREDENTIAL_INVALID")
	want(t, v, "an issuer that is gone", rawB, "CREDENTIAL_INVALID")
	v.Replace([]token.Issuer{ofB})
	want(t, v, "the other way round", raw, "CREDENTIAL_INVALID")
	want(t, v, "an issuer that is back", rawB, "")
	if n := a.Requests(t); n != fetched {
		t.Errorf("another audience had keys fetched %d times", n-fetched)
	}
}

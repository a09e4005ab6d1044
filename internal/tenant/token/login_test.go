package token_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// atIssuer goes to the issuer as a browser, and returns how it was sent back.
func atIssuer(t *testing.T, i *issuertest.Issuer, to string) url.Values {
	t.Helper()
	resp, err := i.Browser().Get(to)
	check.Must(t, err)
	_ = resp.Body.Close()
	back, err := resp.Location()
	if err != nil || resp.StatusCode != http.StatusFound || !strings.HasPrefix(back.String(),
		"https://gate.example.com/cb?") {
		t.Fatalf("%d %v, %v", resp.StatusCode, back, err)
	}
	return back.Query()
}

// signIn signs a person in.
func signIn(t *testing.T, v *token.Verifier, i *issuertest.Issuer, c token.Client) (tenant.Identity, error) {
	t.Helper()
	l := token.NewLogin("https://gate.example.com/cb", "the-state", "the-nonce")
	to, err := v.Authorize(t.Context(), c, l)
	if err != nil {
		return tenant.Identity{}, err
	}
	back := atIssuer(t, i, to)
	if back.Get("state") != l.State {
		t.Fatalf("%v", back)
	}
	return v.Exchange(t.Context(), c, l, token.Answer{Code: back.Get("code"), Issuer: back.Get("iss")})
}

// TestLogin: a person signs in at an issuer, with the claims of the configuration.
func TestLogin(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	i.Clients(t, map[string]string{"gate": "a secret", "public": ""})
	v := start(t, nil, configOf(i, func(c *token.Issuer) {
		c.Claims.User, c.Claims.Groups, c.Claims.Scopes = "email", "groups", "scope"
		c.ScopeNames, c.Scopes = tenant.ScopesByName(), 0
		c.Required = map[string]string{"hd": "example.com"}
	}))
	person := func(change map[string]any) map[string]any {
		claims := map[string]any{"email": "ann@example.com", "email_verified": true, "groups": []string{"ops"},
			"scope": "approve read", "hd": "example.com"}
		for name, value := range change {
			claims[name] = value
		}
		return claims
	}
	i.Person(t, person(nil))
	for _, c := range []token.Client{{Issuer: "corp", ID: "gate", Secret: "a secret", Scopes: []string{"openid"}},
		{Issuer: "corp", ID: "public", Scopes: []string{"openid"}}} {
		who, err := signIn(t, v, i, c)
		if err != nil || who.User != "ann@example.com" || who.Tenant != "acme" || who.Key != "corp" ||
			who.Scopes != tenant.Approve|tenant.Read || len(who.Groups()) != 1 || who.Groups()[0] != "ops" {
			t.Errorf("%s: %+v, %v", c.ID, who, err)
		}
	}
	public := token.Client{Issuer: "corp", ID: "public"}
	i.Person(t, person(map[string]any{"tenant_id": nil}))
	if who, err := signIn(t, v, i, public); err != nil || who.Tenant != "" {
		t.Errorf("without a tenant: %+v, %v", who, err)
	}
	for name, change := range map[string]map[string]any{
		"an unverified address": {"email_verified": false}, "no user": {"email": nil},
		"another domain":      {"hd": "evil.example"},
		"a path for a tenant": {"tenant_id": "../acme"}, "a user with a line break": {"email": "ann\n@example.com"},
	} {
		i.Person(t, person(change))
		if who, err := signIn(t, v, i, public); err == nil {
			t.Errorf("%s signs in: %+v", name, who)
		}
	}
	if _, err := signIn(t, v, i, token.Client{Issuer: "corp", ID: "gate", Secret: "wrong"}); err == nil {
		t.Error("a wrong secret of the client is accepted")
	}
	if _, err := signIn(t, v, i, token.Client{Issuer: "other", ID: "gate"}); err == nil {
		t.Error("an unknown issuer is accepted")
	}
}

// TestWrongLogins: an answer that is not the issuer's, not for this client, or not for this sign-in gives nothing.
func TestWrongLogins(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"wrong nonce", "no nonce", "wrong audience", "two audiences", "wrong azp", "expired",
		"wrong issuer", "wrong signature", "missing iss", "iss of another", "cleartext token endpoint"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			i := issuertest.Start(t)
			i.Behave(t, how)
			who, err := signIn(t, start(t, nil, configOf(i, nil)), i, token.Client{Issuer: "corp", ID: "gate"})
			if err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%+v, %v", who, err)
			}
		})
	}
	i := issuertest.Start(t)
	i.Behave(t, "no iss") // and its discovery does not promise it
	v := start(t, nil, configOf(i, nil))
	if _, err := signIn(t, v, i, token.Client{Issuer: "corp", ID: "gate"}); err != nil {
		t.Error(err)
	}
}

// TestCodes: a code is good once, for its own verifier, redirect and client.
func TestCodes(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v, c := start(t, nil, configOf(i, nil)), token.Client{Issuer: "corp", ID: "gate"}
	l := token.NewLogin("https://gate.example.com/cb", "s", "n")
	code := func() token.Answer {
		to, err := v.Authorize(t.Context(), c, l)
		check.Must(t, err)
		back := atIssuer(t, i, to)
		return token.Answer{Code: back.Get("code"), Issuer: back.Get("iss")}
	}
	once := code()
	if _, err := v.Exchange(t.Context(), c, l, once); err != nil {
		t.Fatal(err)
	}
	other, elsewhere := token.NewLogin(l.Redirect, "s", "n"), l
	elsewhere.Redirect = "https://evil.example/cb"
	for name, attempt := range map[string]func() error{
		"again":            func() error { _, err := v.Exchange(t.Context(), c, l, once); return err },
		"another verifier": func() error { _, err := v.Exchange(t.Context(), c, other, code()); return err },
		"another redirect": func() error { _, err := v.Exchange(t.Context(), c, elsewhere, code()); return err },
		"another client": func() error {
			_, err := v.Exchange(t.Context(), token.Client{Issuer: "corp", ID: "other"}, l, code())
			return err
		},
		"a mixed-up issuer": func() error {
			a := code()
			a.Issuer = "https://other.example.com"
			_, err := v.Exchange(t.Context(), c, l, a)
			return err
		},
	} {
		if err := attempt(); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := i.Logins(t); n != 1 {
		t.Errorf("%d logins", n)
	}
}

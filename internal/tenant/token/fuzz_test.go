package token_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// FuzzToken: every text is rejected, unless it is a token that the issuer signed.
func FuzzToken(f *testing.F) {
	i := issuertest.Start(f)
	v := start(f, nil, configOf(i, nil))
	good := i.Token(f, nil)
	want(f, v, "good", good, "")
	for _, raw := range i.Hostile(f, "https://127.0.0.1:1") {
		f.Add(raw)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, raw string) {
		who, reason := ask(t, v, raw)
		if (reason == "") != (raw == good) || reason != "" && who.Scopes != 0 {
			t.Errorf("%q: %+v, %q", raw, who, reason)
		}
	})
}

// FuzzClaims: claims of an issuer are rejected, or read as by any other JSON parser.
func FuzzClaims(f *testing.F) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check.Must(f, err)
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "1",
			Algorithm: "EdDSA"}}})
	}))
	f.Cleanup(keys.Close)
	i := &issuertest.Issuer{URL: "https://issuer.example.com"}
	v := start(f, nil, configOf(i, func(c *token.Issuer) { c.JWKS = keys.URL }))
	sign := func(t testing.TB, claims string) string {
		text := issuertest.Part(t, map[string]any{"alg": "EdDSA", "kid": "1"}) + "." + issuertest.Part(t, claims)
		return text + "." + issuertest.Part(t, string(ed25519.Sign(private, []byte(text))))
	}
	for _, change := range []map[string]any{
		nil, {"aud": []string{"capgate"}}, {"exp": 1e10}, {"exp": 1.5e9}, {"nbf": 0}, {"tenant_id": "globex"},
		{"sub": "ännchen"}, {"events": nil}, {"typ": "ID"}, {"sub": nil},
	} {
		text, err := json.Marshal(i.Claims(change))
		check.Must(f, err)
		f.Add(string(text))
		f.Add(string(text) + " ")
		f.Add(`{"sub":"eve",` + string(text[1:]))
	}
	f.Fuzz(func(t *testing.T, claims string) {
		who, reason := ask(t, v, sign(t, claims))
		if reason != "" {
			return
		}
		var plain map[string]any
		if err := json.Unmarshal([]byte(claims), &plain); err != nil {
			t.Fatalf("%q is accepted: %v", claims, err)
		}
		if plain["iss"] != i.URL || plain["sub"] != who.User || plain["tenant_id"] != who.Tenant ||
			fmt.Sprint(plain["exp"]) == "<nil>" {
			t.Errorf("the token with the claims %q is accepted as that of %+v; the claims read plainly are %+v", claims,
				who, plain)
		}
	})
}

package token_test

import (
	"testing"

	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// TestIDTokens: they are accepted if so configured.
func TestIDTokens(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, func(c *token.Issuer) { c.IDTokens = true }))
	want(t, v, "an ID token", i.Token(t, map[string]any{"at_hash": "MTIzNDU2Nzg5MDEyMzQ1Ng", "typ": "ID"}), "")
}

// TestIDTokensOfAClient: an ID token without its optional claims is rejected where the id of its client is an audience.
func TestIDTokensOfAClient(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := start(t, nil, configOf(i, func(c *token.Issuer) {
		c.Audiences, c.ClientIDs = []string{"capgate", "api"}, []string{"capgate"}
	}))
	for name, test := range map[string]struct {
		typ    string
		change map[string]any
		reason string
	}{
		"an ID token of a sign-in": {"JWT", nil, "CREDENTIAL_INVALID"},
		"with a list of audiences": {"JWT", map[string]any{"aud": []string{"capgate", "x"}},
			"CREDENTIAL_INVALID"},
		"an ID token of another client":     {"JWT", map[string]any{"aud": "api", "azp": "api"}, "CREDENTIAL_INVALID"},
		"with a nonce":                      {"JWT", map[string]any{"aud": "api", "nonce": "n"}, "CREDENTIAL_INVALID"},
		"an access token":                   {"at+jwt", nil, ""},
		"an access token of Keycloak":       {"JWT", map[string]any{"typ": "Bearer", "nonce": "n"}, ""},
		"an access token of Cognito":        {"JWT", map[string]any{"token_use": "access"}, ""},
		"an access token of another client": {"JWT", map[string]any{"aud": "api", "azp": "agent"}, ""},
		"an access token with both": {"JWT", map[string]any{"aud": []string{"capgate", "api"}, "azp": "agent"},
			""},
		"an ID token with a mark of both": {"at+jwt", map[string]any{"typ": "ID"}, "CREDENTIAL_INVALID"},
	} {
		raw := i.Sign(t, "ES256", map[string]any{"alg": "ES256", "kid": i.KID(t, "ES256"), "typ": test.typ},
			i.Claims(test.change))
		want(t, v, name, raw, test.reason)
	}
}

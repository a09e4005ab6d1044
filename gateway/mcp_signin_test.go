package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// TestMCPSignIn: a client without a credential learns where to get one, and that issuer's token is accepted.
func TestMCPSignIn(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = verifier(t, i)
		o.MCP.Settings.Issuers = []string{i.URL}
	})
	resp, _ := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	challenge := resp.Header.Get("WWW-Authenticate")
	_, address, _ := strings.Cut(challenge, `resource_metadata="`)
	address, _, _ = strings.Cut(address, `"`)
	if resp.StatusCode != http.StatusUnauthorized ||
		address != f.gateway.URL("/.well-known/oauth-protected-resource/mcp") {
		t.Fatalf("%d %q; address %+v", resp.StatusCode, challenge, address)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource",
		"/.well-known/oauth-protected-resource/mcp"} {
		resp, text := getJSON(t, f.gateway, path)
		var metadata struct {
			Resource string
			Servers  []string `json:"authorization_servers"`
		}
		if err := json.Unmarshal([]byte(text), &metadata); err != nil || resp.StatusCode != 200 ||
			metadata.Resource != f.gateway.URL(mcp.Path) || !slices.Equal(metadata.Servers, []string{i.URL}) {
			t.Errorf("%d %s %v; metadata %+v", resp.StatusCode, text, err, metadata)
		}
	}
	resp, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization",
		"Bearer forged.token.here")
	if challenge = resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized ||
		!strings.Contains(challenge, `error="invalid_token"`) || !strings.Contains(challenge, "resource_metadata=") {
		t.Errorf("got %d %q %s", resp.StatusCode, challenge, text)
	}
	other := i.Token(t, map[string]any{"aud": "https://other.example"})
	if resp, text = f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer "+other); resp.
		StatusCode != http.StatusUnauthorized {
		t.Errorf("a token of another audience: %d %s", resp.StatusCode, text)
	}
	for _, revision := range revisions {
		s := f.session(t, revision, nil, "Authorization", "Bearer "+i.Token(t, nil))
		if list, err := s.ListTools(t.Context(), nil); err != nil || len(list.Tools) == 0 {
			t.Errorf("%s: %v; list %+v", revision, err, list)
		}
	}
}

// TestMCPClientSignsIn: a public client that knows only the address gets a token for it in its user's browser.
func TestMCPClientSignsIn(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	tokens := verifier(t, i)
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = tokens
		o.MCP.Settings.Issuers = []string{i.URL}
	})
	tokens.Replace(issuersFor(i, f.gateway.URL(mcp.Path)))
	i.Clients(t, map[string]string{"public": ""})
	browse := func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
		if err != nil {
			return nil, err
		}
		resp, err := i.Browser().Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		back, err := resp.Location()
		if err != nil {
			return nil, err
		}
		q := back.Query()
		return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
	}
	for n, revision := range revisions {
		signIn, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
			PreregisteredClient: &oauthex.ClientCredentials{ClientID: "public"}, Client: i.Browser(),
			RedirectURL: "http://127.0.0.1:1/back", AuthorizationCodeFetcher: browse,
		})
		check.Must(t, err)
		s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: f.gateway.URL(mcp.Path), HTTPClient: f.gateway.HTTP1(t),
				MaxRetries: -1, OAuthHandler: signIn}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatalf("%s: %v", revision, err)
		}
		if r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo,
			Arguments: map[string]any{"a": 1}}); err != nil || textOf(t, r) != `{"a":1}` {
			t.Errorf("%s: %+v %v", revision, r, err)
		}
		_ = s.Close()
		if logins := i.Logins(t); logins != n+1 {
			t.Errorf("%s: %d sign-ins", revision, logins-n)
		}
	}
}

// TestMCPNamesScopesOfIssuer: the metadata lists only those MCP scopes that the issuer supports; it would
// reject a request for others.
func TestMCPNamesScopesOfIssuer(t *testing.T) {
	t.Parallel()
	for supported, want := range map[string][]string{
		"": nil, "scopes openid profile": nil, "scopes openid read admin": {"read"},
		"scopes read openid invoke": {"invoke", "read"},
	} {
		i := issuertest.Start(t)
		i.Behave(t, supported)
		tokens := verifier(t, i)
		f := startMCP(t, func(o *gatewaytest.Options) {
			o.Authenticator = tokens
			o.MCP.Settings.Issuers = []string{i.URL}
			o.MCP.Scopes = func(issuers []string) []string { return tokens.Scopes(issuers, tenant.Invoke|tenant.Read) }
		})
		f.session(t, revisions[0], nil, "Authorization", "Bearer "+i.Token(t, nil)) // fetches the metadata
		_, text := getJSON(t, f.gateway, "/.well-known/oauth-protected-resource/mcp")
		var metadata struct {
			Scopes []string `json:"scopes_supported"`
		}
		check.Must(t, json.Unmarshal([]byte(text), &metadata))
		if !slices.Equal(metadata.Scopes, want) || strings.Contains(text, "scopes_supported") != (want != nil) {
			t.Errorf("%s: %s", supported, text)
		}
	}
}

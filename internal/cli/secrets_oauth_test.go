package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
)

// serveTokens serves MCP servers that require access tokens, and returns their fleets. The server of tokens repeats its
// token in errors. The authorization server of untokened repeats the client's secret, and issues no token.
func (g *secretive) serveTokens(t *testing.T) (fleets []string) {
	t.Helper()
	token := g.plant("access token")
	for _, name := range []string{"tokens", "untokened"} {
		secret := g.plant("client's secret of " + name)
		a := &oauthtest.Authority{Respond: func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			if name == "tokens" {
				_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"}`, token)
				return true
			}
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error":"invalid_client","error_description":%q,"error_uri":%[1]q}`, secret)
			return true
		}}
		a.Start(t)
		a.Resource = oauthtest.Serve(t, g.requireToken(a, token))
		file := filepath.Join(t.TempDir(), "secret")
		check.Must(t, os.WriteFile(file, []byte(secret), 0o600))
		fleets = append(fleets, fmt.Sprintf("- {capability: %s, policy: allow, protocol: mcp, backends: [%q], "+
			"mcp_server: {oauth: {grant: client_credentials, issuer: %q, client_id: gate, client_secret_file: %q}}}",
			name, a.Resource, a.URL, file))
	}
	return fleets
}

// requireToken returns an MCP server that requires a token, and fails each call.
func (g *secretive) requireToken(a *oauthtest.Authority, token string) http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "tokens", Version: "1"}, nil)
	addTool(server, gatewaytest.Echo, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	next := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true})
	refuses := a.Protect(next) // it knows no token
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has := r.Header.Get("Authorization")
		if has != "Bearer "+token {
			refuses.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			g.scan("MCP server", fmt.Sprint(r.Header))
			http.Error(w, "failed with "+has, http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

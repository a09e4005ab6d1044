package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// serveTokens serves MCP servers that require access tokens, and returns their fleets. The server of tokens repeats its
// token in errors. The authorization server of untokened repeats the client's secret, and issues no token. Operators
// log in to the server of logged, which repeats its first token and the last one.
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
	refreshed, rotated := g.plant("refreshed token of a login"), g.plant("rotated refresh token of a login")
	a := &oauthtest.Authority{Respond: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"refresh_token":%q,"token_type":"Bearer"}`, refreshed, rotated)
		return true
	}}
	a.Start(t)
	a.Resource = oauthtest.Serve(t, g.requireToken(a, g.plant("former token of a login"), g.plant("token of a login"),
		g.plant("short token of a login"), refreshed))
	g.logged = a
	return append(fleets, fmt.Sprintf("- {capability: logged, policy: allow, protocol: mcp, backends: [%q], "+
		"mcp_server: {oauth: {grant: authorization_code}}}", a.Resource))
}

// logIn logs the fleet logged in, with a call for each token. The last one ends soon; see refresh.
func (g *secretive) logIn(t *testing.T) {
	t.Helper()
	admin, err := dialAdmin(g.admin)
	check.Must(t, err)
	defer admin.Close()
	for i, token := range []string{"former token of a login", "token of a login", "short token of a login"} {
		login := &capgatepb.SetFleetLoginRequest{
			Capability: "logged", Url: g.logged.Resource, ClientId: "gate", TokenUrl: g.logged.URL + "/token",
			ClientSecret: g.plant(fmt.Sprint("client's secret of login ", i)), AccessToken: g.planted[token],
			RefreshToken: g.plant(fmt.Sprint("refresh token of login ", i))}
		if strings.HasPrefix(token, "short") {
			login.ExpireTime = timestamppb.Now()
		}
		_, err = capgatepb.NewFleetsClient(admin).SetFleetLogin(t.Context(), login)
		check.Must(t, err)
		for _, public := range []string{g.public, g.secondPublic} {
			g.callLogged(t, public)
		}
	}
}

// refresh waits until the token of the last login is near its end, and the gateway has refreshed it. A token lives for
// half a minute at least, most of which has passed while the secrets were sent.
func (g *secretive) refresh(t *testing.T) {
	t.Helper()
	check.UntilEvent(t, "a refreshed token", func() (bool, string, <-chan time.Time) {
		g.callLogged(t, g.public)
		g.mu.Lock()
		defer g.mu.Unlock()
		seen := g.heard["MCP server"]
		return strings.Contains(seen[len(seen)-1], g.planted["refreshed token of a login"]), "an older one",
			time.After(200 * time.Millisecond)
	})
}

// callLogged makes a call at the server of logged.
func (g *secretive) callLogged(t *testing.T, public string) {
	t.Helper()
	conn := connectTo(t, public)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", g.key)
	check.Until(t, "a call", func() (bool, string) {
		_, err := docpb.NewCapabilityClient(conn).Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "logged",
			ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
		g.answered(err)
		return strings.Contains(fmt.Sprint(err), "the MCP server fails"), fmt.Sprint(err)
	})
}

// requireToken returns an MCP server that requires one of some tokens, and fails each call with the first that it
// received and the call's own.
func (g *secretive) requireToken(a *oauthtest.Authority, tokens ...string) http.Handler {
	var once sync.Once
	first := ""
	server := sdk.NewServer(&sdk.Implementation{Name: "tokens", Version: "1"}, nil)
	addTool(server, gatewaytest.Echo, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	next := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true})
	refuses := a.Protect(next) // it knows no token
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !is || !slices.Contains(tokens, has) {
			refuses.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			g.scan("MCP server", fmt.Sprint(r.Header))
			once.Do(func() { first = has })
			http.Error(w, fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":-32000,"message":"failed with %s and %s"}}`, first, has),
				http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

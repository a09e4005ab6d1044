package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/oauth2"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/internal/lib/httpclient"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/lib/weburl"
	"github.com/capgate/capgate/internal/settings"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const fleetsHelp = `A fleet of an MCP server with oauth.grant: authorization_code in the configuration needs the login
of an operator. login opens a browser of this machine, which asks you to authorize the gateway, and gives the
tokens to the gateway, which refreshes them from then on. It waits ten minutes. This machine must reach the
MCP server and its authorization server.

A client with a secret needs --client-secret-file. --port is for clients whose redirect URI has a port:
http://127.0.0.1:PORT/. capgate status shows all fleets.`

// fleetsCommand is capgate fleets.
type fleetsCommand struct {
	output
	secretFile string
	port       uint16
}

// newFleetsCommand returns the command capgate fleets.
func newFleetsCommand(std stdio) *cobra.Command {
	c := &fleetsCommand{output: output{stdio: std}}
	return parent("fleets", "log fleets in at their MCP servers", fleetsHelp,
		overAdmin("show FLEET", "show the login of a fleet", requestTimeout, c.show, c.addFlags),
		overAdmin("login FLEET", "log a fleet in with a browser", signInTime, c.login, c.loginFlags, c.addFlags),
		overAdmin("logout FLEET", "delete the login of a fleet", requestTimeout, c.logout, c.addFlags))
}

func (c *fleetsCommand) loginFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.secretFile, "client-secret-file", "", "`file` with the secret of the client, if it has one")
	fs.Uint16Var(&c.port, "port", 0, "`port` of this machine for the redirect of the browser; default any")
}

func (c *fleetsCommand) show(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	answer, err := capgatepb.NewFleetsClient(conn).GetFleetLogin(cmd.Context(),
		&capgatepb.GetFleetLoginRequest{Capability: args[0]})
	return c.result(answer.GetLogin(), err, func(w io.Writer) { printLogin(w, answer.GetLogin()) })
}

// printLogin prints the login of a fleet.
func printLogin(w io.Writer, l *capgatepb.FleetLogin) {
	rows := [][2]string{{"fleet", l.GetCapability()}, {"server", l.GetUrl()}, {"login", l.GetState()},
		{"problem", orDash(untrusted.Visible(l.GetProblem()))},
		{"scopes", orDash(untrusted.Visible(strings.Join(l.GetGrantedScopes(), " ")))},
		{"logged in by", orDash(l.GetSetBy())}, {"logged in", ageOf(l.GetSetTime())}}
	details(w, rows...)
	if l.GetProblem() != "" {
		fmt.Fprintf(w, "\nto log in: capgate fleets login %s\n", l.GetCapability())
	}
}

func (c *fleetsCommand) logout(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	answer, err := capgatepb.NewFleetsClient(conn).DeleteFleetLogin(cmd.Context(),
		&capgatepb.DeleteFleetLoginRequest{Capability: args[0]})
	return c.result(answer, err, func(w io.Writer) {
		fmt.Fprintf(w, "logged out: fleet %s; its tokens may be valid at the authorization server until they expire\n",
			args[0])
	})
}

func (c *fleetsCommand) login(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	client := capgatepb.NewFleetsClient(conn)
	answer, err := client.GetFleetLogin(cmd.Context(), &capgatepb.GetFleetLoginRequest{Capability: args[0]})
	if err != nil {
		return err
	}
	request, err := c.authorize(cmd.Context(), answer.GetLogin())
	if err != nil {
		return refused("%w", err)
	}
	set, err := client.SetFleetLogin(cmd.Context(), request)
	return c.result(set.GetLogin(), err, func(w io.Writer) {
		fmt.Fprintf(w, "logged in: fleet %s at %s\n", args[0], set.GetLogin().GetUrl())
	})
}

// authorize gets tokens for a fleet from the authorization server of its MCP server, with a browser (RFC 8252).
func (c *fleetsCommand) authorize(ctx context.Context, l *capgatepb.FleetLogin) (*capgatepb.SetFleetLoginRequest,
	error) {
	ln, err := listenForBrowser(ctx, c.port)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ln.Close() }()
	by := httpclient.New(httpclient.Config{Name: "capgate-cli", Timeout: requestTimeout, Handshake: connectTimeout,
		Proxy: http.ProxyFromEnvironment, Compression: true})
	sends := &encrypted{RoundTripper: by.Transport}
	by.Transport = sends
	request := &capgatepb.SetFleetLoginRequest{Capability: l.GetCapability(), Url: l.GetUrl()}
	config := &auth.AuthorizationCodeHandlerConfig{Client: by, RequestRefreshToken: true,
		RedirectURL: "http://" + ln.Addr().String() + "/"}
	if err = c.register(config, l); err != nil {
		return nil, err
	}
	config.AuthorizationCodeFetcher = func(
		ctx context.Context, args *auth.AuthorizationArgs,
	) (*auth.AuthorizationResult, error) {
		var err error
		if sends.token, err = checkIssuer(ctx, by, l.GetIssuer(), args.URL); err != nil {
			return nil, err
		}
		return c.browse(ctx, ln, l.GetCapability(), args.URL)
	}
	config.NewTokenSource = func(_ context.Context, of *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
		request.ClientId, request.ClientSecret, request.TokenUrl = of.ClientID, of.ClientSecret, of.Endpoint.TokenURL
		request.AccessToken, request.RefreshToken = t.AccessToken, t.RefreshToken
		request.ExpireTime = restjson.Time(t.Expiry)
		if request.Scopes = logins.ScopesOf(t); request.GetScopes() == nil {
			request.Scopes = of.Scopes
		}
		request.AuthMethod = map[oauth2.AuthStyle]string{oauth2.AuthStyleInParams: "client_secret_post",
			oauth2.AuthStyleInHeader: "client_secret_basic"}[of.Endpoint.AuthStyle]
		return oauth2.StaticTokenSource(t), nil
	}
	handler, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		return nil, err
	}
	at, challenge, err := challengeFor(ctx, l)
	if err != nil {
		return nil, err
	}
	return request, handler.Authorize(ctx, at, challenge)
}

// register sets how the gateway becomes a client of the authorization server.
func (c *fleetsCommand) register(config *auth.AuthorizationCodeHandlerConfig, l *capgatepb.FleetLogin) error {
	id := l.GetClientId()
	if _, isURL := strings.CutPrefix(id, "https://"); isURL {
		config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: id}
	} else if id != "" {
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: id, Issuer: l.GetIssuer()}
	}
	switch {
	case c.secretFile != "" && config.PreregisteredClient == nil:
		return errors.New("--client-secret-file is for a client_id of the configuration that is no URL")
	case c.secretFile != "":
		secret, err := settings.Files{}.Read(c.secretFile)
		if err != nil {
			return fmt.Errorf("--client-secret-file: %w", err)
		}
		config.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{
			ClientSecret: strings.TrimSpace(string(secret))}
	case config.PreregisteredClient == nil:
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "capgate",
				RedirectURIs: []string{config.RedirectURL}, ResponseTypes: []string{"code"},
				GrantTypes: []string{"authorization_code", "refresh_token"}}}
	}
	return nil
}

// browse shows the URL of the authorization server, and returns what its redirect has.
func (c *fleetsCommand) browse(ctx context.Context, ln net.Listener, fleet, address string) (*auth.AuthorizationResult,
	error) {
	u, err := weburl.Parse(address, "")
	if err != nil || weburl.IsCleartext(u) {
		return nil, errors.New("the authorization server has no https URL for browsers")
	}
	fmt.Fprintf(c.err, "Authorize the gateway with a browser of this machine, for the fleet %s:\n\n  %s\n\n", fleet,
		untrusted.Visible(address))
	got, err := fromBrowser(ctx, ln, "capgate fleets login", address, u.Query().Get("state"))
	if err != nil {
		return nil, err
	}
	return &auth.AuthorizationResult{Code: got.Get("code"), State: got.Get("state"), Iss: got.Get("iss")}, nil
}

// checkIssuer returns the token endpoint of the configured authorization server, or an error if a URL for the browser
// is not that server's.
func checkIssuer(ctx context.Context, by *http.Client, issuer, address string) (token string, err error) {
	if issuer == "" {
		return "", nil
	}
	of, err := auth.GetAuthServerMetadata(ctx, issuer, by)
	if err != nil || of == nil {
		return "", errors.Join(errors.New("the configured issuer has no metadata"), err)
	}
	at, err := url.Parse(of.AuthorizationEndpoint)
	to, wrong := url.Parse(address)
	if err != nil || wrong != nil || at.Scheme != to.Scheme || at.Host != to.Host || at.Path != to.Path {
		return "", fmt.Errorf("the server names another authorization server than the configured issuer %s", issuer)
	}
	return of.TokenEndpoint, nil
}

// challengeFor returns the request and the response with which the server of a fleet requires a login.
func challengeFor(ctx context.Context, l *capgatepb.FleetLogin) (*http.Request, *http.Response, error) {
	at, err := http.NewRequestWithContext(ctx, http.MethodPost, l.GetUrl(), http.NoBody)
	var words []string
	if scopes := strings.Join(l.GetScopes(), " "); scopes != "" {
		words = append(words, `scope="`+scopes+`"`)
	}
	if metadata := l.GetMetadataUrl(); metadata != "" {
		words = append(words, `resource_metadata="`+metadata+`"`)
	}
	resp := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}, Body: http.NoBody, Request: at}
	resp.Header.Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(words, ", ")))
	return at, resp, err
}

// encrypted rejects requests that cross a network in cleartext, and codes for another token endpoint than token.
type encrypted struct {
	http.RoundTripper
	token string // URL; "" means any
}

// RoundTrip implements http.RoundTripper.
func (e *encrypted) RoundTrip(r *http.Request) (*http.Response, error) {
	var err error
	switch {
	case weburl.IsCleartext(r.URL):
		err = fmt.Errorf("%s is cleartext HTTP", r.URL.Host)
	case e.token != "" && r.Method == http.MethodPost && r.URL.String() != e.token:
		err = fmt.Errorf("%s is not the token endpoint of the configured issuer", r.URL.Redacted())
	default:
		return e.RoundTripper.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, err
}

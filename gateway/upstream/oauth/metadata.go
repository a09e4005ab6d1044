package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/lib/weburl"
)

const (
	maxMetadata = 256 << 10 // bytes of a metadata document
	maxScopes   = 64        // scopes of one token
	wellKnown   = "/.well-known/oauth-protected-resource"
)

// Endpoint is the token endpoint of an authorization server, for the tokens of one server.
type Endpoint struct {
	oauth2.Endpoint
	Issuer   string
	Resource string   // URL of the server (RFC 8707)
	Scopes   []string // requested
	// Client sends the request. It follows no redirect.
	Client *http.Client
}

// discover returns the token endpoint of the server's authorization server. metadata is the URL of the server's
// metadata in a challenge; it may be "".
func (t *Transport) discover(ctx context.Context, metadata string) (*Endpoint, error) {
	server, err := t.describe(ctx, metadata)
	if err != nil {
		return nil, err
	}
	issuer := t.Settings.Issuer
	switch {
	case issuer == "" && len(server.AuthorizationServers) == 0:
		return nil, errors.New("the server's metadata names no authorization server; set oauth.issuer")
	case issuer == "":
		issuer = server.AuthorizationServers[0]
		if err = checkURL(issuer); err != nil {
			return nil, fmt.Errorf("the URL of the authorization server in the server's metadata %w", err)
		}
	case server.AuthorizationServers != nil && !slices.ContainsFunc(server.AuthorizationServers,
		func(named string) bool { return sameIssuer(named, issuer) }):
		return nil, errors.New("the server's metadata does not name oauth.issuer as an authorization server, and a " +
			"credential is sent to no other one")
	}
	of, err := AuthorizationServer(ctx, t.client, issuer)
	if err != nil {
		return nil, fmt.Errorf("the authorization server: %w", err)
	}
	style := oauth2.AuthStyleInHeader // the default (RFC 8414 §2)
	if methods := of.TokenEndpointAuthMethodsSupported; len(methods) > 0 &&
		!slices.Contains(methods, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	return &Endpoint{Endpoint: oauth2.Endpoint{AuthURL: of.AuthorizationEndpoint, TokenURL: of.TokenEndpoint,
		AuthStyle: style}, Issuer: of.Issuer, Resource: server.Resource, Scopes: t.scopes(server.ScopesSupported),
		Client: t.client}, nil
}

// describe returns the metadata of the server (RFC 9728). A server without metadata is its own resource. Many servers
// have one document for their host, which their challenges name. A document for the server's path that is about the
// server has precedence, so that a challenge cannot widen the resource.
func (t *Transport) describe(ctx context.Context, metadata string) (*oauthex.ProtectedResourceMetadata, error) {
	own := t.at(wellKnown + strings.TrimRight(t.url.Path, "/"))
	at := []string{own, t.at(wellKnown)}
	if metadata != "" {
		u, err := url.Parse(metadata)
		if err != nil || !sameOrigin(u, t.url) && !sameOrigin(u, t.resource) {
			return nil, errors.New("the server's challenge names metadata at another host")
		}
		u.Host = t.url.Host
		at = append([]string{u.String()}, at...)
	}
	var wider *oauthex.ProtectedResourceMetadata
	foreign := false
	for _, from := range slices.Compact(at) {
		if wider != nil && from != own {
			continue
		}
		of := new(oauthex.ProtectedResourceMetadata)
		found, err := fetch(ctx, func(r *http.Request) (*http.Response, error) {
			r.Host = cmp.Or(t.Host, r.Host)
			return t.Base.RoundTrip(r)
		}, []string{from}, of)
		switch {
		case err != nil && wider == nil:
			return nil, fmt.Errorf("the server's metadata: %w", err)
		case !found:
		case isResource(of.Resource, t.resource, ""):
			return of, nil
		case isResource(of.Resource, t.resource, from):
			wider = of
		default:
			foreign = true
		}
	}
	if wider != nil {
		return wider, nil
	}
	if foreign {
		return nil, errors.New("the server's metadata is that of another resource")
	}
	return &oauthex.ProtectedResourceMetadata{Resource: t.resource.String()}, nil
}

// at returns the URL of a path at the server.
func (t *Transport) at(path string) string {
	u := *t.url
	u.Path, u.RawPath, u.RawQuery = path, "", ""
	return u.String()
}

// sameOrigin reports whether two URLs have the same scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if u.Scheme == "https" {
		return cmp.Or(u.Port(), "443")
	}
	return cmp.Or(u.Port(), "80")
}

// isResource reports whether the metadata at a URL, which name a resource, are those of a server (RFC 9728 §3.3). The
// resource is the server, or has it below its path and is the one whose metadata are at that URL; "" means none.
// Otherwise a server could get tokens for all servers of its host. A document at the root that names the host is
// accepted: MCP's clients look there when the path has none, the URL is derived from the host, as the RFC requires of
// the resource, and the official conformance suite has such servers.
func isResource(resource string, server *url.URL, metadata string) bool {
	of, err := url.Parse(resource)
	at, wrong := url.Parse(metadata)
	if err != nil || wrong != nil || !sameOrigin(of, server) || of.User != nil ||
		of.RawQuery != "" && of.RawQuery != server.RawQuery {
		return false
	}
	path, own := strings.TrimRight(of.Path, "/"), strings.TrimRight(server.Path, "/")
	return path == own || strings.HasPrefix(own, path+"/") && strings.TrimRight(at.Path, "/") == wellKnown+path
}

// AuthorizationServer returns the metadata of an authorization server (RFC 8414 §3, OpenID Connect Discovery §4). Its
// token endpoint has https, unless it is loopback. The error is for operators.
func AuthorizationServer(ctx context.Context, by *http.Client, issuer string) (*oauthex.AuthServerMeta, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, errors.New("its URL is invalid")
	}
	path := strings.Trim(u.EscapedPath(), "/")
	if path != "" {
		path = "/" + path
	}
	root := u.Scheme + "://" + u.Host
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	of := new(oauthex.AuthServerMeta)
	found, err := fetch(ctx, by.Do, slices.Compact([]string{root + oauth + path, root + oidc + path,
		root + path + oidc}), of)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, errors.New("it has no metadata (RFC 8414)")
	case !sameIssuer(of.Issuer, issuer):
		return nil, errors.New("its metadata is that of another issuer")
	}
	endpoint, err := weburl.Parse(of.TokenEndpoint, "https://login.example.com/token")
	if err == nil && weburl.IsCleartext(endpoint) {
		err = errors.New("is cleartext HTTP")
	}
	if err != nil {
		return nil, fmt.Errorf("its token_endpoint %w", err)
	}
	return of, nil
}

func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// fetch reads the first document that exists at one of these URLs.
func fetch(ctx context.Context, send func(*http.Request) (*http.Response, error), urls []string, to any) (found bool,
	_ error) {
	for _, at := range urls {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return false, errors.New("its URL is invalid")
		}
		r.Header.Set("Accept", "application/json")
		resp, err := send(r)
		if err != nil {
			return false, withoutURL(err)
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata+1))
		_ = resp.Body.Close()
		switch {
		case resp.StatusCode >= 400 && resp.StatusCode <= 499:
			continue
		case resp.StatusCode != http.StatusOK:
			return false, fmt.Errorf("HTTP %d", resp.StatusCode)
		case err != nil:
			return false, err
		case len(text) > maxMetadata:
			return false, fmt.Errorf("it is larger than %d bytes", maxMetadata)
		}
		if strictjson.Unmarshal(text, to) != nil {
			return false, errors.New("it is not a JSON document of this kind")
		}
		return true, nil
	}
	return false, nil
}

// withoutURL returns the error of a request without its URL, whose query could be secret.
func withoutURL(err error) error {
	of := (*url.Error)(nil)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("it does not respond in time")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.As(err, &of):
		return of.Err
	}
	return err
}

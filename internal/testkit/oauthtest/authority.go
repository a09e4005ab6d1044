// Package oauthtest has an authorization server for tests, and servers that require its tokens.
package oauthtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// ID and Secret are those of the client. The secret needs to be encoded in a header and in a form.
const (
	ID     = "gate way"
	Secret = "s3cret:&%+of/the client"
)

// Authority is an authorization server with one client, whose tokens are for one server. Its fields must be set before
// the first request.
type Authority struct {
	URL      string // issuer
	Resource string // URL of the server
	// Describe changes the metadata of the authorization server, and that of the server; optional.
	Describe, DescribeResource func(metadata map[string]any)
	// Respond responds to a request for a token, unless it returns false; optional.
	Respond func(w http.ResponseWriter, r *http.Request) bool
	// Expires is expires_in of tokens; nil means that they have none.
	Expires any
	// Challenge has more parameters of the server's challenges; optional.
	Challenge string

	mu     sync.Mutex
	forms  []url.Values
	valid  map[string][]string // tokens with their scopes
	issued int
}

// Start serves the authorization server until the test ends.
func (a *Authority) Start(t *testing.T) {
	t.Helper()
	a.URL = Serve(t, a)
}

// Serve serves a handler until the test ends.
func Serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = check.Listen(t)
	s.Start()
	check.Cleanup(t, func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// ServeHTTP implements http.Handler.
func (a *Authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		send(w, http.StatusOK, described(a.Describe, map[string]any{"issuer": a.URL, "token_endpoint": a.URL + "/token",
			"authorization_endpoint": a.URL + "/authorize", "code_challenge_methods_supported": []string{"S256"}}))
	case "/token":
		a.token(w, r)
	default:
		http.NotFound(w, r)
	}
}

func described(by func(map[string]any), of map[string]any) map[string]any {
	if by != nil {
		by(of)
	}
	return of
}

// token issues a token to the client.
func (a *Authority) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	a.mu.Lock()
	a.forms = append(a.forms, r.PostForm)
	a.mu.Unlock()
	if a.Respond != nil && a.Respond(w, r) {
		return
	}
	id, secret, basic := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	if !basic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	if id != ID || secret != Secret || r.PostForm.Get("grant_type") != "client_credentials" {
		send(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client",
			"error_description": "not " + secret})
		return
	}
	a.Issue(w, strings.Fields(r.PostForm.Get("scope")))
}

// Issue responds with a token that has scopes.
func (a *Authority) Issue(w http.ResponseWriter, scopes []string) {
	of := map[string]any{"access_token": a.Give(scopes...), "token_type": "bearer"}
	if a.Expires != nil {
		of["expires_in"] = a.Expires
	}
	send(w, http.StatusOK, of)
}

// Give returns another valid token, which has scopes.
func (a *Authority) Give(scopes ...string) (token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.issued++
	token = "access-token-" + strconv.Itoa(a.issued)
	if a.valid == nil {
		a.valid = map[string][]string{}
	}
	a.valid[token] = scopes
	return token
}

// Withdraw revokes a token.
func (a *Authority) Withdraw(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.valid, token)
}

// Requests returns the requests for tokens.
func (a *Authority) Requests() []url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.forms)
}

// Revoke revokes all tokens.
func (a *Authority) Revoke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.valid)
}

// Protect returns a server that has metadata, and requires a token with scopes. Of a token that lacks scopes, it says
// so.
func (a *Authority) Protect(next http.Handler, scopes ...string) http.Handler {
	const wellKnown = "/.well-known/oauth-protected-resource"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, wellKnown) {
			send(w, http.StatusOK, described(a.DescribeResource, map[string]any{"resource": a.Resource,
				"authorization_servers": []string{a.URL}}))
			return
		}
		token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		a.mu.Lock()
		has, valid := a.valid[token]
		a.mu.Unlock()
		lacks := slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(has, scope) })
		switch {
		case !is || !valid:
			w.Header().Set("WWW-Authenticate", "Bearer "+a.Challenge)
			w.WriteHeader(http.StatusUnauthorized)
		case lacks:
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+
				strings.Join(scopes, " ")+`"`)
			w.WriteHeader(http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

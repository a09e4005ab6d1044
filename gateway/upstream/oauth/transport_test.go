package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
)

// files reads the files of tests.
type files struct{}

func (files) Read(name string) ([]byte, error)   { return os.ReadFile(name) }
func (files) Wrong(name string, err error) error { return fmt.Errorf("%s: %w", name, err) }

// settings returns the settings with the secret of the client.
func settings(t *testing.T, a *oauthtest.Authority) *oauth.Settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	check.Must(t, os.WriteFile(file, []byte(oauthtest.Secret+"\n"), 0o600))
	return &oauth.Settings{Grant: oauth.ClientCredentials, Issuer: a.URL, ClientID: oauthtest.ID, SecretFile: file}
}

// world is a server that requires the tokens of an authorization server.
type world struct {
	*oauthtest.Authority
	server   string
	requests atomic.Int32 // that the server has accepted
	bodies   chan string  // of them
}

// serve starts both.
func serve(t *testing.T, a *oauthtest.Authority, scopes ...string) *world {
	t.Helper()
	w := &world{Authority: a, bodies: make(chan string, 1000)}
	w.Start(t)
	w.server = oauthtest.Serve(t, a.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.requests.Add(1)
		w.bodies <- string(body)
	}), scopes...)) + "/mcp"
	if w.Resource == "" {
		w.Resource = w.server
	}
	return w
}

// open returns a transport for the server.
func (w *world) open(t *testing.T, s *oauth.Settings) *oauth.Transport {
	t.Helper()
	credential, err := s.Read(files{})
	check.Must(t, err)
	base := &http.Transport{}
	tr := oauth.New(oauth.Config{Settings: s, Credential: credential, Server: w.server, Base: base})
	check.Cleanup(t, func() {
		tr.Close()
		base.CloseIdleConnections()
	})
	return tr
}

// post sends a request through a transport.
func (w *world) post(t *testing.T, tr http.RoundTripper) (status int, _ error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*check.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server, strings.NewReader("hello"))
	check.Must(t, err)
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// wants sends a request, which must be accepted.
func (w *world) wants(t *testing.T, tr http.RoundTripper) {
	t.Helper()
	if status, err := w.post(t, tr); err != nil || status != http.StatusOK {
		t.Fatalf("HTTP %d, %v", status, err)
	}
	if body := <-w.bodies; body != "hello" {
		t.Fatalf("the server received %q", body)
	}
}

// TestTokens: a server gets a token for itself, by the authentication that the authorization server supports. It is
// used until the server rejects it, and all waiting requests share the next one.
func TestTokens(t *testing.T) {
	t.Parallel()
	for name, methods := range map[string][]string{"default": nil, "basic": {"client_secret_post",
		"client_secret_basic"}, "post": {"client_secret_post"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, &oauthtest.Authority{Describe: func(m map[string]any) {
				if methods != nil {
					m["token_endpoint_auth_methods_supported"] = methods
				}
			}})
			tr := w.open(t, settings(t, w.Authority))
			for range 3 {
				w.wants(t, tr)
			}
			all := w.Requests()
			if len(all) != 1 || all[0].Get("resource") != w.server || all[0].Has("scope") ||
				all[0].Has("client_secret") != (name == "post") {
				t.Errorf("%d requests for a token: %v", len(all), all)
			}
			if token := tr.Token(); token != "access-token-1" {
				t.Errorf("the token is %q", token)
			}
		})
	}
}

// TestOneTokenForAll: requests that a server refuses at the same time share one request for a token.
func TestOneTokenForAll(t *testing.T) {
	t.Parallel()
	const clients = 50
	var refused atomic.Int32
	all := make(chan struct{})
	w := serve(t, &oauthtest.Authority{Respond: func(http.ResponseWriter, *http.Request) bool {
		<-all // until each request was refused
		return false
	}})
	tr := w.open(t, settings(t, w.Authority))
	counted := roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusUnauthorized && refused.Add(1) == clients {
			close(all)
		}
		return resp, err
	})
	tr.Base = counted
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			if status, err := w.post(t, tr); err != nil || status != http.StatusOK {
				t.Errorf("HTTP %d, %v", status, err)
			}
		})
	}
	running.Wait()
	if n := len(w.Requests()); n != 1 || w.requests.Load() != clients {
		t.Errorf("%d requests for a token, %d accepted requests", n, w.requests.Load())
	}
}

// TestLateRefusal: a request that a server refuses after another one got a token is sent again with that.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	w := serve(t, &oauthtest.Authority{})
	tr := w.open(t, settings(t, w.Authority))
	base, refused, replaced := tr.Base, make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	tr.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if !first.Swap(true) {
			close(refused)
			<-replaced
		}
		return resp, err
	})
	var late sync.WaitGroup
	late.Go(func() { w.wants(t, tr) })
	check.Received(t, refused, "the refusal")
	w.wants(t, tr)
	close(replaced)
	late.Wait()
	if n := len(w.Requests()); n != 1 {
		t.Errorf("%d requests for a token", n)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestOnlyWholeRequestsAreSentAgain: a request whose body cannot be sent again gets the server's response.
func TestOnlyWholeRequestsAreSentAgain(t *testing.T) {
	t.Parallel()
	w := serve(t, &oauthtest.Authority{})
	tr := w.open(t, settings(t, w.Authority))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server, io.MultiReader(strings.NewReader("x")))
	check.Must(t, err)
	resp, err := tr.RoundTrip(r)
	check.Must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || len(w.Requests()) != 0 {
		t.Errorf("HTTP %d, %v", resp.StatusCode, w.Requests())
	}
}

// TestScopes: those of the settings, and otherwise those that the server requires, or else those of its metadata.
func TestScopes(t *testing.T) {
	t.Parallel()
	supports := func(m map[string]any) { m["scopes_supported"] = []string{"read", "write", "a b"} }
	for name, c := range map[string]struct {
		authority *oauthtest.Authority
		set       []string
		requires  []string
		want      []string // of each request for a token
		wrong     string
	}{
		"none":             {authority: &oauthtest.Authority{}, want: []string{""}},
		"of the metadata":  {authority: &oauthtest.Authority{DescribeResource: supports}, want: []string{"read write"}},
		"of the challenge": {authority: &oauthtest.Authority{Challenge: `scope="read x"`}, want: []string{"read x"}},
		"of both": {authority: &oauthtest.Authority{Challenge: `scope="x"`, DescribeResource: supports},
			want: []string{"x"}},
		"set": {authority: &oauthtest.Authority{Challenge: `scope="x"`, DescribeResource: supports},
			set: []string{"read"}, want: []string{"read"}},
		"more": {authority: &oauthtest.Authority{Challenge: `scope="read"`}, requires: []string{"read", "admin"},
			want: []string{"read", "read admin"}},
		"more than set": {authority: &oauthtest.Authority{}, set: []string{"read"}, requires: []string{"read", "admin"},
			want: []string{"read"}, wrong: "requires scopes that the token lacks: read admin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, c.authority, c.requires...)
			s := settings(t, w.Authority)
			s.Scopes = c.set
			tr := w.open(t, s)
			_, err := w.post(t, tr)
			if err == nil && c.requires != nil { // the first token lacks some
				_, err = w.post(t, tr)
			}
			var got []string
			for _, form := range w.Requests() {
				got = append(got, form.Get("scope"))
			}
			if !slices.Equal(got, c.want) || (err == nil) != (c.wrong == "") || err != nil &&
				!strings.Contains(err.Error(), c.wrong) {
				t.Errorf("scopes %q, %v", got, err)
			}
		})
	}
}

// TestBadHabits: a server or an authorization server that does not keep to the protocol gets no credential, and no
// request twice. The error says why, and has nothing of a response.
func TestBadHabits(t *testing.T) {
	t.Parallel()
	describe := func(name string, value any) func(map[string]any) {
		return func(m map[string]any) { m[name] = value }
	}
	respond := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	huge := strings.Repeat("x", 300<<10)
	for name, c := range map[string]struct {
		authority *oauthtest.Authority
		sent      bool // the credential
		want      string
	}{
		"metadata that points elsewhere": {authority: &oauthtest.Authority{DescribeResource: describe(
			"authorization_servers", []string{"https://login.example.com"})}, want: "does not name oauth.issuer"},
		"metadata without an authorization server": {authority: &oauthtest.Authority{DescribeResource: describe(
			"authorization_servers", []string{})}, want: "does not name oauth.issuer"},
		"metadata of another resource": {authority: &oauthtest.Authority{Resource: "https://other.example.com/mcp"},
			want: "is that of another resource"},
		"metadata at another host": {authority: &oauthtest.Authority{
			Challenge: `resource_metadata="http://169.254.169.254/latest"`}, want: "names metadata at another host"},
		"huge metadata of the server": {authority: &oauthtest.Authority{DescribeResource: describe("x", huge)},
			want: "the server's metadata: it is larger than"},
		"huge metadata": {authority: &oauthtest.Authority{Describe: describe("x", huge)},
			want: "the authorization server: it is larger than"},
		"wrong issuer": {authority: &oauthtest.Authority{Describe: describe("issuer", "https://login.example.com")},
			want: "its metadata is that of another issuer"},
		"no token endpoint": {authority: &oauthtest.Authority{Describe: describe("token_endpoint", "")},
			want: "its token_endpoint is not an HTTP URL"},
		"cleartext token endpoint": {authority: &oauthtest.Authority{Describe: describe("token_endpoint",
			"http://login.example.com/token")}, want: "its token_endpoint is cleartext HTTP"},
		"metadata of another kind": {authority: &oauthtest.Authority{Describe: describe("token_endpoint", 7)},
			want: "it is not a JSON document of this kind"},
		"refused": {authority: &oauthtest.Authority{Respond: respond(401, `{"error":"invalid_client",
			"error_description":"no client has canary"}`)}, sent: true, want: "refuses a token: invalid_client"},
		"refused in other words": {authority: &oauthtest.Authority{Respond: respond(400, `{"error":"<canary \">"}`)},
			sent: true, want: "refuses a token: HTTP 400"},
		"a page": {authority: &oauthtest.Authority{Respond: respond(200, "canary")}, sent: true,
			want: "not a token"},
		"an empty page": {authority: &oauthtest.Authority{Respond: respond(200, "{}")}, sent: true,
			want: "not a token"},
		"redirect": {authority: &oauthtest.Authority{Respond: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/canary", http.StatusTemporaryRedirect)
			return true
		}}, sent: true, want: "refuses a token: HTTP 307"},
		"not a bearer token": {authority: &oauthtest.Authority{Respond: respond(200,
			`{"access_token":"canary","token_type":"DPoP"}`)}, sent: true, want: "not a bearer token"},
		"a token with a line break": {authority: &oauthtest.Authority{Respond: respond(200,
			`{"access_token":"canary\r\nx:y","token_type":"Bearer"}`)}, sent: true, want: "the token is invalid"},
		"a huge token": {authority: &oauthtest.Authority{Respond: respond(200, `{"access_token":"canary`+huge+`"}`)},
			sent: true, want: "the token is invalid"},
		"rejected forever": {authority: &oauthtest.Authority{Respond: respond(200, `{"access_token":"canary"}`)},
			sent: true, want: "the server rejects the token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, c.authority)
			tr := w.open(t, settings(t, w.Authority))
			began := time.Now()
			for range 5 { // no further request for a token follows immediately
				_, err := w.post(t, tr)
				if failed := (*oauth.Error)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), c.want) ||
					strings.Contains(err.Error(), "canary") {
					t.Errorf("%v", err)
				}
			}
			// The first pause is a second, plus or minus a tenth, which a busy machine may need for the requests.
			most := 1 + int(time.Since(began)/(900*time.Millisecond))
			if n := len(w.Requests()); (n > 0) != c.sent || n > most || w.requests.Load() != 0 {
				t.Errorf("%d requests for a token, %d accepted requests", n, w.requests.Load())
			}
		})
	}
}

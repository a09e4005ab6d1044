package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
)

// testFiles reads files. Those of headers have the value as their name.
type testFiles struct{}

func (testFiles) Read(name string) ([]byte, error)   { return os.ReadFile(name) }
func (testFiles) Unchanged(string) bool              { return false }
func (testFiles) Wrong(name string, err error) error { return errors.New(name + ": " + err.Error()) }

func (testFiles) Headers(file string, _ func(string) bool) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	return map[string]string{"authorization": file}, nil
}

// guarded is an MCP server that requires the tokens of an authorization server.
type guarded struct {
	*remote
	authority *oauthtest.Authority
	refuses   atomic.Bool // no further token is issued

	mu  sync.Mutex
	has map[string]string // last credential of accepted requests, by method
}

// guard starts both.
func guard(t *testing.T, old bool) *guarded {
	t.Helper()
	return guardOf(t, newRemote(t, old))
}

// guardOf starts the authorization server of an MCP server.
func guardOf(t *testing.T, of *remote) *guarded {
	t.Helper()
	g := &guarded{remote: of, has: map[string]string{}}
	g.authority = &oauthtest.Authority{Resource: g.URL, Respond: func(w http.ResponseWriter, _ *http.Request) bool {
		if g.refuses.Load() {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"canary"}`)
		}
		return g.refuses.Load()
	}}
	g.authority.Start(t)
	next := *g.handler.Load()
	protected := g.authority.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.has[r.Method] = strings.Join(r.Header.Values("Authorization"), ", ")
		g.mu.Unlock()
		next.ServeHTTP(w, r)
	}))
	g.handler.Store(&protected)
	return g
}

// credential returns the credential of the last request with a method.
func (g *guarded) credential(method string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.has[method]
}

// fleet sets the settings of a fleet with the credential of the client.
func (g *guarded) fleet(t *testing.T, f *upstream.Fleet) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	check.Must(t, os.WriteFile(file, []byte(oauthtest.Secret), 0o600))
	settings(f).OAuth = &oauth.Settings{Grant: oauth.ClientCredentials, Issuer: g.authority.URL, ClientID: oauthtest.ID,
		SecretFile: file}
	check.Must(t, mcp.Read(f, nil, testFiles{}))
}

// TestAccessTokens: each request to a server has the token of the fleet, and none has the credential of a caller. A
// revoked token is replaced, and no call runs twice or fails.
func TestAccessTokens(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			g := guard(t, old)
			w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) { g.fleet(t, f) }, g.URL)
			for i := range int32(5) {
				ctx := metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer theirs")
				got, err := w.Invoke(ctx, request("echo", `{"text":"x"}`))
				if err != nil || string(got.GetResultJson()) != `"x"` || g.calls.Load() < i+1 {
					t.Fatalf("%s, %v, %d calls", got.GetResultJson(), err, g.calls.Load())
				}
				if has := g.credential(http.MethodPost); !strings.HasPrefix(has, "Bearer access-token-") {
					t.Errorf("the server received %q", has)
				}
			}
			if n := len(g.authority.Requests()); n != 1 || g.calls.Load() != 5 {
				t.Errorf("%d requests for a token, %d calls", n, g.calls.Load())
			}
			if !old {
				return
			}
			check.Until(t, "the stream of notifications", func() (bool, string) {
				has := g.credential(http.MethodGet)
				return has == "Bearer access-token-1", has
			})
			w.servers.Set(nil)
			check.Until(t, "the end of the session", func() (bool, string) {
				has := g.credential(http.MethodDelete)
				return has == "Bearer access-token-1", has
			})
		})
	}
}

// TestNoAccessToken: the state of a backend says why it gets no token, and a call that its server refuses says that
// much. Neither has anything of the responses.
func TestNoAccessToken(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			g := guard(t, old)
			var fleet upstream.Fleet
			w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) {
				g.fleet(t, f)
				fleet = *f
			}, g.URL)
			w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			g.refuses.Store(true)
			g.authority.Revoke()
			check.Until(t, "the refusal", func() (bool, string) { // the first token may be too new to be replaced
				_, err := w.Invoke(within(t), request("echo", `{"text":"x"}`))
				if info := clienttest.ErrorInfo(err); info.GetReason() != "MCP_SERVER_UNAUTHORIZED" ||
					status.Code(err) != codes.FailedPrecondition || strings.Contains(err.Error(), "canary") {
					t.Errorf("%v", err)
				}
				return len(g.authority.Requests()) > 1, "no request for another token"
			})
			servers := mcp.Open(upstream.Options{})
			defer servers.Close()
			servers.Set([]upstream.Fleet{fleet})
			result := servers.Probe(id).(health.Direct).ProbeAddr(within(t), g.URL)
			backend := health.Backend{State: health.Down, Reason: result.Reason}
			public := backend.PublicReason()
			if result.OK || !strings.Contains(result.Reason, "authorization server refuses a token: invalid_client") ||
				!strings.Contains(public, "requires an access token") || strings.Contains(public, "invalid_client") ||
				strings.Contains(result.Reason, "canary") {
				t.Errorf("%+v, %q", result, public)
			}
		})
	}
}

// TestEchoedAccessToken: a server's text that repeats the token, or a former one, is in no reason.
func TestEchoedAccessToken(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	first := ""
	inner := g.authority.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first == "" {
			first = r.Header.Get("Authorization")
		}
		http.Error(w, "no "+first, http.StatusServiceUnavailable)
	}))
	g.handler.Store(&inner)
	fleet := upstream.Fleet{Capability: id, Backends: []string{g.URL}, Protocol: &mcp.Settings{}}
	g.fleet(t, &fleet)
	servers := mcp.Open(upstream.Options{})
	defer servers.Close()
	servers.Set([]upstream.Fleet{fleet})
	result := servers.Probe(id).(health.Direct).ProbeAddr(within(t), g.URL)
	if !strings.Contains(result.Reason, "HTTP 503") || strings.Contains(result.Reason, "access-token") {
		t.Errorf("%+v", result)
	}
	g.authority.Revoke()
	check.Until(t, "another token", func() (bool, string) { // the first one may be too new to be replaced
		result = servers.Probe(id).(health.Direct).ProbeAddr(within(t), g.URL)
		return len(g.authority.Requests()) > 1, result.Reason
	})
	if !strings.Contains(result.Reason, "HTTP 503") || strings.Contains(result.Reason, "access-token") {
		t.Errorf("with another token: %+v", result)
	}
}

// TestTokensOfStreams: the stream of a session that is reopened has the token of then, and so have the answers to
// questions on it.
func TestTokensOfStreams(t *testing.T) {
	t.Parallel()
	called, asks := make(chan struct{}), make(chan struct{})
	g := guardOf(t, newStrayAsking(t, func(context.Context) error {
		close(called)
		<-asks
		return nil
	}))
	first, end := context.WithCancel(context.Background())
	defer end()
	var streams atomic.Int32 // that were opened before
	next := *g.handler.Load()
	ending := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && first.Err() == nil {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(first, cancel)()
			streams.Add(1)
			defer streams.Add(-1)
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	}))
	g.handler.Store(&ending)
	g.configure = func(f *upstream.Fleet) { g.fleet(t, f) }
	w := startAsking(t, g.remote, []string{"elicitation"})
	s := w.connect(t, answering(func(string) {}), "2025-11-25")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if text, failed := ask(t, s); failed || text != "Ann" {
			t.Errorf("%q, %t", text, failed)
		}
	}()
	check.Received(t, called, "the call")
	g.authority.Revoke()
	check.Until(t, "another token", func() (bool, string) {
		_, err := w.Invoke(within(t), request("echo", `{"text":"x"}`))
		return err == nil, fmt.Sprint(err)
	})
	end()
	check.Until(t, "the stream that is reopened", func() (bool, string) {
		if n := streams.Load(); n > 0 {
			return false, fmt.Sprint(n, " streams have not ended yet")
		}
		for s := range g.mcp.Sessions() {
			of := s.InitializeParams()
			if of != nil && of.Capabilities.Elicitation != nil && s.Ping(within(t), nil) == nil {
				return true, ""
			}
		}
		return false, "the server cannot ask"
	})
	close(asks)
	check.Received(t, ended, "the end of the call")
}

// TestOneCredential: a fleet has either access tokens or a configured header authorization.
func TestOneCredential(t *testing.T) {
	t.Parallel()
	fleet := upstream.Fleet{Protocol: &mcp.Settings{HeadersFile: "Bearer ours",
		OAuth: &oauth.Settings{Grant: oauth.AuthorizationCode}}}
	if err := mcp.Read(&fleet, nil, testFiles{}); err == nil || !strings.Contains(err.Error(), "both set the header") {
		t.Errorf("%v", err)
	}
}

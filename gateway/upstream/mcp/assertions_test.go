package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// verifier is a server that verifies the assertion of each request.
type verifier struct {
	*remote
	signer *assertion.Signer

	mu   sync.Mutex
	saw  []string     // the method and the caller of each request
	ids  map[any]bool // of the assertions that were seen
	news chan struct{}
}

func newVerifier(t *testing.T, old bool) *verifier {
	t.Helper()
	return verifying(t, newRemote(t, old))
}

// verifying makes a server verify assertions.
func verifying(t *testing.T, r *remote) *verifier {
	t.Helper()
	v := &verifier{remote: r, ids: map[any]bool{}, news: make(chan struct{}, 1)}
	v.signer = assertion.New(sharedkey.New(nil, nil).Keys("assertions"), assertion.Settings{Used: true}, nil)
	v.signer.Load(t.Context())
	next := *v.handler.Load()
	verifies := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		v.note(q)
		next.ServeHTTP(w, q)
	}))
	v.handler.Store(&verifies)
	return v
}

// note records a request with its caller; "": it has no assertion. An assertion that comes again is no caller's.
func (v *verifier) note(q *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var m struct{ Method string }
	if q.Method == http.MethodPost {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		_ = json.Unmarshal(body, &m)
	}
	who := ""
	if all := q.Header.Values(assertion.Header); len(all) > 0 {
		set, _ := v.signer.Keys()
		claims, err := issuertest.Verify(set, strings.Join(all, ","), v.URL, time.Now())
		who = fmt.Sprint(claims["sub"], " ", claims["request_id"])
		if err != nil || v.ids[claims["jti"]] {
			who = fmt.Sprint("again, or ", err)
		}
		v.ids[claims["jti"]] = true
	}
	if q.Header.Get("X-Capgate-Caller") != "" {
		who += ", and the caller in clear"
	}
	v.saw = append(v.saw, strings.TrimSpace(q.Method+" "+m.Method)+": "+who)
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// until waits until the server has received a request.
func (v *verifier) until(t *testing.T, want string) {
	t.Helper()
	check.UntilEvent(t, want, func() (bool, []string, <-chan struct{}) {
		v.mu.Lock()
		defer v.mu.Unlock()
		return slices.Contains(v.saw, want), slices.Clone(v.saw), v.news
	})
}

// only fails the test if a request that has the prefix was not made by one of these.
func (v *verifier) only(t *testing.T, prefix string, by ...string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, saw := range v.saw {
		method, who, _ := strings.Cut(saw, ": ")
		if strings.HasPrefix(method, prefix) && !slices.Contains(by, who) {
			t.Errorf("%s; want %q", saw, by)
		}
	}
}

// callers are clients of tenants whose keys assert users.
type callers struct {
	docpb.CapabilityClient
	credentials map[string]string // by tenant
}

// serve runs a gateway in front of the server.
func (v *verifier) serve(t *testing.T, edit func(*upstream.Fleet, *gatewaytest.Fleet)) *callers {
	t.Helper()
	servers := mcp.Open(upstream.Options{Sign: v.signer.Sign})
	f := upstream.Fleet{Capability: id, Backends: []string{v.URL}, Protocol: &mcp.Settings{}}
	of := gatewaytest.Fleet{Capability: id, Backends: f.Backends, Dialect: call.Doc, Protocol: f.Protocol,
		Asks: servers.Probe(id)}
	edit(&f, &of)
	of.Assertion = f.Assertion
	servers.Set([]upstream.Fleet{f})
	keys, settings := tenant.NewKeys(nil), map[string]*tenant.Settings{}
	grants, err := tenant.ParseGrants([]string{"*"})
	check.Must(t, err)
	c := &callers{credentials: map[string]string{}}
	var all []tenant.Key
	for _, of := range []string{"acme", "globex"} {
		key, secret := tenant.NewCredential()
		settings[of], c.credentials[of] = &tenant.Settings{ID: of, Capabilities: grants}, tenant.Credential(key, secret)
		all = append(all, tenant.Key{ID: key, Tenant: of, Hash: tenant.HashOf(secret, nil), Scopes: tenant.Invoke,
			Asserts: tenant.User | tenant.Agent})
	}
	keys.Replace(all, settings, nil)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{of}, Closed: servers.Close,
		Assert: v.signer, Authenticator: tenant.NewAuthenticators(tenant.Sources{File: keys}),
		Local: upstream.Protocols{mcp.Name: servers}.Serve})
	c.CapabilityClient = docpb.NewCapabilityClient(g.Conn(t))
	return c
}

// as returns the context of a user's call, which also tries to pass an assertion of its own.
func (c *callers) as(ctx context.Context, of, user, request string) context.Context {
	own := (&assertion.Caller{Gateway: true}).Encode()
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.credentials[of], "x-user-id", user,
		"x-request-id", request, assertion.Header, "forged", "x-capgate-caller", own)
}

func asserts(f *upstream.Fleet, _ *gatewaytest.Fleet) { f.Assertion = &router.Assertion{} }

// TestAssertions: each request has the assertion of the caller that caused it, also in a session that another caller
// has opened. Requests that no caller caused are those of the gateway itself.
func TestAssertions(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, old)
			check.Cleanup(t, func() { // the gateway has ended
				v.only(t, "DELETE", "gateway <nil>") // none if the server was slow
			})
			w := v.serve(t, asserts)
			call := func(of, user, request string) {
				t.Helper()
				req := in("shared")
				_, err := w.Invoke(w.as(within(t), of, user, request), req)
				check.Must(t, err)
				v.until(t, fmt.Sprintf("POST tools/call: %s/user/%s %s", of, user, request))
			}
			call("acme", "ann", "r1")
			call("acme", "bob", "r2")
			call("globex", "ann", "r3")
			call("acme", "ann", "r4")

			ctx, cancel := context.WithCancel(w.as(t.Context(), "acme", "bob", "r5"))
			defer cancel()
			ended := make(chan error, 1)
			req := request("wait", `{}`)
			req.SessionId = "shared"
			go func() {
				_, err := w.Invoke(ctx, req)
				ended <- err
			}()
			check.Received(t, v.began, "the call")
			cancel()
			_ = check.Received(t, ended, "its end")
			_ = check.Received(t, v.ended, "its end at the server")
			if old {
				v.until(t, "POST notifications/cancelled: acme/user/bob r5")
			}

			v.only(t, "POST tools/call", "acme/user/ann r1", "acme/user/bob r2", "globex/user/ann r3",
				"acme/user/ann r4", "acme/user/bob r5")
			v.only(t, "POST ping", "gateway <nil>")
			v.only(t, "POST server/discover", "gateway <nil>")
			v.only(t, "GET", "gateway <nil>")
			v.only(t, "POST initialize", "gateway <nil>", "acme/user/ann r1", "globex/user/ann r3")
		})
	}
}

// TestNoAssertions: servers of a fleet that wants none receive none, whatever callers send.
func TestNoAssertions(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, false)
	w := v.serve(t, func(*upstream.Fleet, *gatewaytest.Fleet) {})
	_, err := w.Invoke(w.as(within(t), "acme", "ann", "r1"), request("echo", `{"text":"x"}`))
	check.Must(t, err)
	v.until(t, "POST tools/call: ")
	v.only(t, "", "")
}

// TestNoKeyNoRequest: while the gateway cannot sign, servers receive nothing. The call did not start.
func TestNoKeyNoRequest(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, false)
	v.signer = assertion.New(sharedkey.New(nil, nil).Keys("assertions"), assertion.Settings{Used: true}, nil)
	w := v.serve(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
		asserts(f, of)
		of.Unprobed = true
	})
	_, err := w.Invoke(w.as(within(t), "acme", "ann", "r1"), request("echo", `{"text":"x"}`))
	if reason := status.InfoOf(err).GetReason(); reason != "ASSERTION_UNAVAILABLE" {
		t.Errorf("%v", err)
	}
	v.only(t, "")
}

// TestProbeWithoutKey: the result of a probe says that the gateway cannot sign. The server receives nothing.
func TestProbeWithoutKey(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, false)
	servers := mcp.Open(upstream.Options{})
	check.Cleanup(t, servers.Close)
	servers.Set([]upstream.Fleet{{Capability: id, Backends: []string{v.URL}, Protocol: &mcp.Settings{},
		Assertion: &router.Assertion{}}})
	result := servers.Probe(id).(health.Direct).ProbeAddr(within(t), v.URL)
	if result.OK || result.Reason != assertion.ErrNoKey.Error() {
		t.Errorf("%+v", result)
	}
	v.only(t, "")
}

// TestAnswersAreTheCallers: the answer to a question of the server has an assertion of its own, for the caller of the
// call.
func TestAnswersAreTheCallers(t *testing.T) {
	t.Parallel()
	v := verifying(t, newAsking(t, true))
	v.signs = v.signer
	w := startAsking(t, v.remote, []string{"elicitation", "sampling", "roots"})
	if text, failed := ask(t, w.connect(t, answering(func(string) {}), "2025-11-25")); failed {
		t.Fatal(text)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	of := map[string][]string{}
	for _, saw := range v.saw {
		method, who, _ := strings.Cut(saw, ": ")
		of[method] = append(of[method], who)
	}
	calls, answers := of["POST tools/call"], of["POST"]
	if len(calls) != 1 || calls[0] == "" || !slices.Equal(answers, []string{calls[0], calls[0], calls[0]}) {
		t.Errorf("the call is by %q, and the answers by %q", calls, answers)
	}
}

package mcp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// TestSessionsOfTenants: sessions of two tenants with the same id are two at the server. Without an id, each principal
// has one, whether or not the fleet binds sessions to servers.
func TestSessionsOfTenants(t *testing.T) {
	t.Parallel()
	for _, bound := range []bool{true, false} {
		t.Run(fmt.Sprint("affinity ", bound), func(t *testing.T) {
			t.Parallel()
			sessionsOfTenants(t, bound)
		})
	}
}

// ofTenants runs a gateway with two tenants, one of which has two keys, and an MCP server with sessions. The function
// calls the server's count.
func ofTenants(t *testing.T, r *remote, bound bool) (count func(of, session string) (string, error)) {
	t.Helper()
	return tenantsOf(t, r, bound, mcp.Open(upstream.Options{}))
}

func tenantsOf(t *testing.T, r *remote, bound bool, servers upstream.Backends) func(of, session string) (string,
	error) {
	t.Helper()
	servers.Set([]upstream.Fleet{{Capability: id, Backends: []string{r.URL}, Sessions: bound,
		Protocol: &mcp.Settings{Sessions: mcp.SharedSessions}}})
	keys, settings, credentials := tenant.NewKeys(nil), map[string]*tenant.Settings{}, map[string]string{}
	grants, err := tenant.ParseGrants([]string{"*"})
	check.Must(t, err)
	var all []tenant.Key
	for _, of := range []string{"acme", "acme/other", "globex"} {
		key, secret := tenant.NewCredential()
		id, _, _ := strings.Cut(of, "/")
		settings[id], credentials[of] = &tenant.Settings{ID: id, Capabilities: grants}, tenant.Credential(key, secret)
		all = append(all, tenant.Key{ID: key, Tenant: id, Hash: tenant.HashOf(secret, nil), Scopes: tenant.Invoke})
	}
	keys.Replace(all, settings, nil)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: id, Backends: []string{r.URL}, Dialect: call.Doc,
			Protocol: &mcp.Settings{},
			Asks:     servers.Probe(id), Affinity: router.Affinity{Sessions: bound}}},
		Authenticator: tenant.NewAuthenticators(tenant.Sources{File: keys}), Closed: servers.Close,
		Local: upstream.Protocols{mcp.Name: servers}.Serve,
	})
	client := docpb.NewCapabilityClient(g.Conn(t))
	return func(of, session string) (string, error) {
		req := request("count", `{}`)
		req.SessionId = session
		got, err := client.Invoke(metadata.AppendToOutgoingContext(within(t), "authorization",
			"Bearer "+credentials[of]), req)
		return string(got.GetResultJson()), err
	}
}

func sessionsOfTenants(t *testing.T, bound bool) {
	t.Helper()
	r := newRemote(t, true)
	count := ofTenants(t, r, bound)
	for _, test := range []struct{ of, session, want string }{
		{"acme", "a", `{"calls":1}`}, {"globex", "a", `{"calls":1}`}, {"acme", "a", `{"calls":2}`},
		{"acme", "b", `{"calls":1}`},
		{"acme", "", `{"calls":1}`}, {"globex", "", `{"calls":1}`}, {"acme", "", `{"calls":2}`},
		{"globex", "", `{"calls":2}`},
	} {
		if got, err := count(test.of, test.session); err != nil || got != test.want {
			t.Errorf("%s, session %s: %s, %v; want %s", test.of, test.session, got, err, test.want)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []string{"Authorization", "X-Capgate-Tenant", "X-Session-Id"} {
		if got := r.headers.Values(name); len(got) > 0 {
			t.Errorf("the server saw %s: %d values", name, len(got))
		}
	}
}

// TestSessionsAreBounded: a tenant has 1,000 sessions at a server. A further one ends the longest unused session of the
// user with the most, and none of another tenant.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 1000
	count := ofTenants(t, newRemote(t, true), true)
	want := func(of, session, result string) {
		if got, err := count(of, session); err != nil || got != result {
			t.Errorf("%s, session %s: %s, %v; want %s", of, session, got, err, result)
		}
	}
	want("globex", "kept", `{"calls":1}`)
	want("acme/other", "kept", `{"calls":1}`)
	want("acme", "0", `{"calls":1}`)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := 1 + worker; i < most-1; i += 8 { // one is of another user
				want("acme", strconv.Itoa(i), `{"calls":1}`)
			}
		})
	}
	all.Wait()
	want("acme", "0", `{"calls":2}`)
	for i := range 10 {
		want("acme", strconv.Itoa(most+i), `{"calls":1}`)
	}
	want("acme", "0", `{"calls":3}`)
	want("acme", strconv.Itoa(most), `{"calls":2}`)
	want("globex", "kept", `{"calls":2}`)
	want("acme/other", "kept", `{"calls":2}`)
	ended := 0
	for i := 1; i <= 40; i++ { // the longest unused are among the first of each worker
		got, err := count("acme", strconv.Itoa(i))
		if err != nil {
			t.Error(err)
		}
		if got == `{"calls":1}` {
			ended++
		}
	}
	if ended == 0 {
		t.Error("no session of the tenant has ended")
	}
}

// TestSessionsEndWithoutTheirServer: when a server does not end sessions in time, they end at the gateway alone, and
// leave no goroutine.
func TestSessionsEndWithoutTheirServer(t *testing.T) {
	t.Parallel()
	const sessions = 50 // more than are ended at once
	r := newRemote(t, true)
	behind := *r.handler.Load()
	stuck := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodDelete {
			<-q.Context().Done()
			return
		}
		behind.ServeHTTP(w, q)
	}))
	r.handler.Store(&stuck)
	count := ofTenants(t, r, true) // at the end of the test, its gateway requires that no goroutine is left
	for i := range sessions {
		if got, err := count("acme", strconv.Itoa(i)); err != nil || got != `{"calls":1}` {
			t.Errorf("session %d: %s, %v", i, got, err)
		}
	}
}

// TestSessionsAreCharged: sessions hold the memory of their tenant until they end. A tenant without room loses its own.
func TestSessionsAreCharged(t *testing.T) {
	t.Parallel()
	const each = 18 << 10
	pool := fairshare.New("sessions", 10*each)
	room := &upstream.Room{}
	servers := mcp.Open(upstream.Options{Room: room})
	room.Charge(pool)
	count := tenantsOf(t, newRemote(t, true), true, servers)
	want := func(of, session, result string) {
		if got, err := count(of, session); err != nil || got != result {
			t.Errorf("%s, session %s: %s, %v; want %s", of, session, got, err, result)
		}
	}
	want("globex", "kept", `{"calls":1}`)
	for i := range 20 {
		want("acme", strconv.Itoa(i), `{"calls":1}`)
	}
	want("globex", "kept", `{"calls":2}`)
	want("acme", "19", `{"calls":2}`)
	want("acme", "0", `{"calls":1}`)
	want("globex", "another", `{"calls":1}`)
	if used := pool.Used(); used < 9*each || used > 10*each {
		t.Errorf("%d bytes are held", used)
	}
	none := fairshare.New("sessions", each/2)
	room.Charge(none)
	_, err := count("acme", "more")
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted ||
		!strings.Contains(fmt.Sprint(s.Details()), "SESSIONS_FULL") {
		t.Errorf("without any memory: %v %v", err, s.Details())
	}
	servers.Close()
	if pool.Used() != 0 || none.Used() != 0 {
		t.Errorf("all have ended: %d and %d bytes are held", pool.Used(), none.Used())
	}
}

// TestRedirects: no request follows a redirect, which could take the credential of the server to another host, and
// neither does the one that ends a session.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var followed, ended atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	check.Cleanup(t, elsewhere.Close)
	for _, code := range []int{301, 302, 303, 307, 308} {
		all, some := httptest.NewServer(http.RedirectHandler(elsewhere.URL, code)), newRemote(t, true)
		check.Cleanup(t, all.Close)
		behind := *some.handler.Load()
		served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodDelete {
				ended.Add(1)
				http.Redirect(w, q, elsewhere.URL, code)
				return
			}
			behind.ServeHTTP(w, q)
		}))
		some.handler.Store(&served)
		if _, err := start(t, nil, all.URL).Invoke(within(t), request("echo", `{}`)); err == nil {
			t.Errorf("%d: the call succeeds", code)
		}
		w := start(t, nil, some.URL)
		w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
		w.servers.Close()
	}
	if n := followed.Load(); n > 0 || ended.Load() < 5 {
		t.Errorf("%d requests followed a redirect; %d sessions ended", n, ended.Load())
	}
}

// TestReservedHeaders: the configuration sets none that the protocol sets.
func TestReservedHeaders(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"mcp-session-id": true, "MCP-Protocol-Version": true,
		"Mcp-Param-City": true,
		"host":           true, "Content-Type": true, "last-event-id": true, "te": true, "Authorization": false,
		"X-Api-Key": false,
		"Mcp-":      false, "Mcpx": false} {
		if mcp.ReservedHeader(name) != want {
			t.Errorf("%s: %t", http.CanonicalHeaderKey(name), !want)
		}
	}
}

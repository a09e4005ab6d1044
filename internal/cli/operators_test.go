package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/app"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// asksOperators makes the admin API of a process in a test authenticate its callers.
var asksOperators = []string{"CAPGATE_ADMIN_INSECURE="}

// operatorKey returns a new key, and its entry in the configuration.
func operatorKey(more string) (key, entry string) {
	id, secret := tenant.NewCredential()
	return tenant.Credential(id, secret), fmt.Sprintf("{id: %s, hash: %q, %s}", id, tenant.HashOf(secret, nil), more)
}

// guardedGateway is a running gateway with an operator of each role, for all tenants and for one.
type guardedGateway struct {
	admin  string
	conn   *grpc.ClientConn
	routes []string
	keys   map[string]string // by role, or acme's role
	issuer *issuertest.Issuer
}

func startGuarded(t *testing.T) *guardedGateway {
	t.Helper()
	g := &guardedGateway{keys: map[string]string{}, issuer: issuertest.Start(t)}
	var operators, callers []string
	for _, role := range []string{"viewer", "operator", "approver", "admin"} {
		key, entry := operatorKey("name: " + role + ", roles: [" + role + "]")
		g.keys[role], operators = key, append(operators, entry)
		key, entry = operatorKey("roles: [" + role + "], tenant: acme")
		g.keys["acme's "+role], operators = key, append(operators, entry)
		key, entry = operatorKey("scopes: [invoke, role." + role + "]")
		g.keys["acme's key "+role], callers = key, append(callers, entry)
	}
	key, entry := operatorKey("scopes: [invoke, read, approve, policy, admin]")
	g.keys["no role"], callers = key, append(callers, entry)
	key, entry = operatorKey("roles: [admin], expires: 2020-01-01T00:00:00Z")
	g.keys["expired"], operators = key, append(operators, entry)
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte(strings.Join([]string{
		"listen: 127.0.0.1:0", "admin: 127.0.0.1:0", "drain: {delay: 0s}", "policies: {}", "log: {level: error}",
		"redis: embedded", "identity: {store: redis}", "registration: {capabilities: ['gen-*']}",
		"tenants: [{id: acme, capabilities: ['*'], keys: [" + strings.Join(callers, ", ") +
			"]}, {id: globex, capabilities: ['*']}]", "issuers: [{name: corp, issuer: '" + g.issuer.URL +
			"', audiences: [capgate], ca_file: " + g.issuer.CAFile + "}]",
		"operators: {keys: [" + strings.Join(operators, ", ") +
			"], people: [{issuer: corp, user: ann, roles: [approver]}, {issuer: corp, user: bea, roles: [viewer], " +
			"tenant: acme}, {issuer: corp, user: bea, roles: [admin], tenant: globex}, {issuer: corp, user: cid, " +
			"roles: [viewer]}, {issuer: corp, user: cid, roles: [admin], tenant: acme}]}",
		"fleets: [{capability: weather, policy: allow, backends: ['127.0.0.1:1']}]",
	}, "\n")), 0o600))
	s, err := settings.Load(file, settings.Overrides{})
	check.Must(t, err)
	p, err := app.New(s, app.Options{Log: io.Discard})
	check.Must(t, err)
	mount, err := p.AdminServices()
	check.Must(t, err)
	mux := guard.NewMux()
	mount(mux)
	g.routes, g.admin = append(mux.Routes(), gatewayRoutes...), p.AdminAddr()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		check.Must(t, check.Received(t, ended, "the process to end"))
	})
	g.conn, err = clienttest.NewConn("passthrough:///"+g.admin,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	t.Cleanup(func() { _ = g.conn.Close() })
	waitPage(t, "http://"+g.admin+"/livez", "ok")
	return g
}

// gatewayRoutes are the routes that package gateway itself adds.
var gatewayRoutes = []string{"GET /livez", "GET /readyz", "GET /readyz?verbose", "GET /metrics", "GET /{$}",
	"GET /console/", "GET /docs/errors", "GET /debug/pprof/", "GET /debug/pprof/cmdline", "GET /debug/pprof/symbol",
	"POST /debug/pprof/symbol", "GET /debug/pprof/profile?seconds=1", "GET /debug/pprof/trace?seconds=1"}

// openRoute are the routes that need no credential.
var openRoute = regexp.MustCompile(
	`^(GET /livez|GET /readyz|GET /docs/errors|GET /console/|(GET|POST) /(signin.*|signout|cli.*))$`)

// ofOneTenant are the routes that an operator of one tenant can use.
var ofOneTenant = regexp.MustCompile(`/capgate\.v1\.(Approvals|Calls|Summary|AuditLog|Playground|Toolsets|Usage)/|` +
	`v1\.Policies/(List|Set|Delete|Explain|Compare)|v1\.Tenants/(Get|List|CreateKey|RotateKey|RevokeKey)|` +
	`grpc\.reflection|GET /\{\$\}|/docs|/openapi|Operators/GetMe$|History/GetTenantHistory$`)

// leastRole returns the role that the contract requires for a route, independently of the table of the guard.
func leastRole(route string) string {
	method := route[strings.LastIndexByte(route, '/')+1:]
	verb := regexp.MustCompile(`^(List|Get|Show|Watch|Explain|Compare|ServerReflection)`)
	switch {
	case openRoute.MatchString(route):
		return ""
	case strings.Contains(route, "Sessions"): // they name people
		return "admin"
	case strings.HasPrefix(route, "/") && verb.MatchString(method), strings.Contains(route, "pprof"):
		return "viewer"
	case strings.HasPrefix(route, "GET "):
		return "viewer"
	case method == "Approve" || method == "Deny":
		return "approver"
	case regexp.MustCompile(`Registry/|AcceptTool|DiscoverTools|/v1/backends/|Fleets/.*Backend|Webhooks/`).
		MatchString(route):
		return "operator"
	}
	return "admin"
}

// include reports whether a role includes another.
func include(role, least string) bool { return role == "admin" || role == least || least == "viewer" }

// ask requests a route with a credential, and returns the reason of the rejection; "" if it is permitted. A rejection
// is waited for, also on a busy machine; an endless stream is awaited for a short time, unless a rejection is wanted.
func (g *guardedGateway) ask(t *testing.T, route, credential, want string) string {
	t.Helper()
	limit := check.Patience
	if want == "" && strings.Contains(route, "Watch") {
		limit = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if strings.HasPrefix(route, "/") {
		if credential != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+credential)
		}
		stream, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, route)
		check.Must(t, err)
		_ = stream.SendMsg(new(emptypb.Empty))
		_ = stream.CloseSend()
		err = stream.RecvMsg(new(emptypb.Empty)) // a stream without events ends with the deadline
		if code := status.Code(err); code == codes.Unauthenticated || code == codes.PermissionDenied {
			return reasonOfStatus(err)
		}
		return ""
	}
	method, path, _ := strings.Cut(route, " ")
	path = strings.ReplaceAll(path, "{tenant_id=*}", "acme")
	path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(strings.ReplaceAll(path, "{$}", ""), "x")
	code, text := request(ctx, t, method, "http://"+g.admin+path, credential)
	if code == http.StatusUnauthorized || code == http.StatusForbidden {
		return text[strings.Index(text, `"reason":"`)+10:][:8]
	}
	return ""
}

func reasonOfStatus(err error) string {
	text := fmt.Sprint(status.Convert(err).Details())
	for _, reason := range []string{"OPERATOR_UNKNOWN", "OPERATOR_TENANT", "ROLE_MISSING", "CREDENTIAL_INVALID"} {
		if strings.Contains(text, reason) {
			return reason[:8]
		}
	}
	return text
}

func request(ctx context.Context, t *testing.T, method, url, credential string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	check.Must(t, err)
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // follows nothing
	check.Must(t, err)
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp.StatusCode, "" // it is endless
	}
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(text)
}

// TestRolesOfRoutes: every operator is permitted exactly the routes and methods of the admin API that its role
// includes.
func TestRolesOfRoutes(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	var services []string
	for _, route := range g.routes {
		if service, _, is := strings.Cut(strings.TrimPrefix(route, "/"), "/"); is && strings.HasPrefix(route, "/") {
			services = append(services, service)
		}
	}
	type one struct{ route, row string }
	var all []one
	for _, route := range g.routes {
		all = append(all, one{route, route})
	}
	methods, err := guard.JSONRoutes(services)
	check.Must(t, err)
	for route, method := range methods {
		all = append(all, one{route, method})
	}
	if len(all) < 70 {
		t.Errorf("%d routes alone", len(all))
	}
	credentials := []string{"", "no role", "acme's viewer", "acme's key viewer", "acme's approver", "acme's admin",
		"acme's key admin", "acme's operator", "viewer", "operator", "approver", "admin"}
	for _, r := range all {
		t.Run(r.route, func(t *testing.T) {
			t.Parallel()
			for _, who := range credentials {
				role, least := who[strings.LastIndexByte(who, ' ')+1:], leastRole(r.row)
				want := ""
				switch {
				case least == "":
				case who == "":
					want = "OPERATOR"
				case who == "no role" || !include(role, least):
					want = "ROLE_MIS"
				case strings.HasPrefix(who, "acme's") && !ofOneTenant.MatchString(r.row):
					want = "OPERATOR"
				}
				if got := g.ask(t, r.route, g.keys[who], want); got != want &&
					(least != "" || got == "OPERATOR" || got == "ROLE_MIS") {
					t.Errorf("%q as %q: %q, want %q", r.route, who, got, want)
				}
			}
		})
	}
}

// TestOtherCredentialsAreNoOperators: credentials that are not an operator's do not open the admin API.
func TestOtherCredentialsAreNoOperators(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	url := "http://" + g.admin + "/v1/fleets"
	key := g.keys["admin"]
	for _, test := range []struct {
		name, method, url, credential string
		header                        []string
		status                        int
		reason                        string
	}{
		{"an admin", "GET", url, key, nil, 200, ""},
		{"an admin, by the other header", "GET", url, "", []string{"X-Api-Key", key}, 200, ""},
		{"nobody", "GET", url, "", nil, 401, "OPERATOR_UNKNOWN"},
		{"an unknown path", "GET", "http://" + g.admin + "/nothing", "", nil, 401, "OPERATOR_UNKNOWN"},
		{"another secret", "GET", url, key[:20] + strings.Repeat("a", 32), nil, 401, "CREDENTIAL_INVALID"},
		{"an expired key", "GET", url, g.keys["expired"], nil, 401, "CREDENTIAL_EXPIRED"},
		{"two keys", "GET", url, key, []string{"X-Api-Key", g.keys["viewer"]}, 401, "CREDENTIAL_INVALID"},
		{"a start token", "GET", url, operator.NewStartToken(), nil, 401, "CREDENTIAL_INVALID"},
		{"a token of nobody", "GET", url, g.issuer.Token(t, map[string]any{"sub": "eve"}), nil, 403, "ROLE_MISSING"},
		{"a token of a person", "GET", url, g.issuer.Token(t, map[string]any{"sub": "ann"}), nil, 200, ""},
		{"another host", "GET", url, key, []string{"Host", "evil.example"}, 421, "HOST_UNKNOWN"},
		{"a page of another site", "POST", "http://" + g.admin + "/v1/backends/x:drain", key,
			[]string{"Sec-Fetch-Site", "cross-site"}, 403, "CROSS_SITE"},
		{"a page of another origin", "POST", "http://" + g.admin + "/v1/policies", key,
			[]string{"Origin", "https://evil.example"}, 403, "CROSS_SITE"},
		{"a form of another site without a key", "POST", "http://" + g.admin + "/capgate.v1.Policies/SetPolicy", "",
			[]string{"Sec-Fetch-Site", "same-site"}, 403, "CROSS_SITE"},
	} {
		status, text := request(t.Context(), t, test.method, test.url, test.credential, test.header...)
		if status != test.status || !strings.Contains(text, test.reason) {
			t.Errorf("%s: %d %s", test.name, status, text)
		}
	}
	status := 0
	for range 100 { // an address that guesses is blocked
		if status, _ = request(t.Context(), t, "GET", url, "guess"); status == http.StatusTooManyRequests {
			break
		}
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("guesses: %d", status)
	}
	if status, text := request(t.Context(), t, "GET", url, key); status != 200 { // it was accepted before
		t.Errorf("a key after the guesses of others: %d %s", status, text)
	}
	if status, _ := request(t.Context(), t, "GET", "http://"+g.admin+"/readyz", ""); status != 200 {
		t.Errorf("/readyz: %d", status)
	}
}

// TestOperatorOfOneTenant: an operator of one tenant sees and changes only that tenant.
func TestOperatorOfOneTenant(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	base := "http://" + g.admin
	all, own := g.keys["admin"], g.keys["acme's admin"]
	set := func(credential, body string) (int, string) {
		resp, text := clienttest.Send(t, clienttest.HTTP, http.MethodPut, base+"/v1/policies", body, "Authorization",
			"Bearer "+credential)
		return resp.StatusCode, text
	}
	for _, test := range []struct {
		credential, body string
		status           int
		part             string
	}{
		{all, `{"tenant":"globex","capability":"weather","tool":"secret-of-globex","policy":"allow"}`, 200, ""},
		{all, `{"global":true,"capability":"weather","tool":"secret-of-all","policy":"block"}`, 200,
			`"set_by":"admin, key `},
		{own, `{"capability":"weather","tool":"mine","policy":"allow"}`, 200, `"tenant":"acme"`},
		{own, `{"tenant":"globex","capability":"weather","tool":"x","policy":"allow"}`, 403, "OPERATOR_TENANT"},
		{own, `{"global":true,"capability":"weather","tool":"x","policy":"allow"}`, 403, "OPERATOR_TENANT"},
	} {
		test.body = strings.Replace(test.body, "{", `{"set_by":"eve",`, 1)
		if status, text := set(test.credential, `{"force":true,"policy":`+test.body+`}`); status != test.status &&
			status != 400 || !strings.Contains(text, test.part) {
			if status, text = set(test.credential, test.body); status != test.status ||
				!strings.Contains(text, test.part) {
				t.Errorf("%s: %d %s", test.body, status, text)
			}
		}
	}
	for path, want := range map[string]int{
		"/v1/policies": 200, "/v1/policies?tenant=-": 200, "/v1/policies?tenant=acme": 200,
		"/v1/policies?tenant=globex": 403,
		"/v1/policies?global=true":   403, "/v1/policies:explain?capability=weather&tool=secret-of-all&force=true": 200,
		"/v1/policies:explain?capability=weather&tool=x&tenant=globex": 403,
		"/v1/approvals": 200, "/v1/approvals?tenant=-": 200, "/v1/approvals?tenant=globex": 403,
		"/v1/tenants": 200, "/v1/tenants/acme": 200, "/v1/tenants/globex": 403, "/v1/tenants/-/keys": 200,
		"/v1/tenants/acme/keys": 200, "/v1/tenants/globex/keys": 403, "/v1/limits": 200,
		"/v1/limits?tenant=globex": 403, "/v1/calls": 200, "/v1/calls?tenant=globex": 403, "/v1/audit": 200,
		"/v1/audit?tenant=globex": 403, "/v1/summary": 200, "/v1/summary?tenant=globex": 403,
	} {
		status, text := request(t.Context(), t, "GET", base+path, own)
		text = strings.ReplaceAll(text, `"tenant":"acme"`, "")
		if status != want || status == 200 && (strings.Contains(text, "globex") ||
			strings.Contains(text, "secret-of-all") && !strings.Contains(path, "secret-of-all")) {
			t.Errorf("%s: %d %s", path, status, text)
		}
		if status == 403 && !strings.Contains(text, "OPERATOR_TENANT") {
			t.Errorf("%s: %s", path, text)
		}
	}
}

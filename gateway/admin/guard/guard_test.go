package guard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/testkit/check"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// people authenticates operators by names in place of credentials.
type people map[string]*operator.Identity

func (p people) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	name, _ := guard.Credential(r)
	switch who := p[name]; {
	case name == "away":
		return nil, true, &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_UNAVAILABLE"}
	case who != nil:
		return who, true, nil
	}
	return nil, false, nil
}

// sessions remembers for whom a session was made.
type sessions struct{ of string }

func (s *sessions) Issue(_ http.ResponseWriter, _ *http.Request, who *operator.Identity) error {
	s.of = who.Name
	return nil
}

// newGuard returns some routes behind a guard. A route answers with its operator's rights.
func newGuard(t *testing.T, cfg guard.Config) (*guard.Guard, http.Handler) {
	t.Helper()
	mux := guard.NewMux()
	rights := func(w http.ResponseWriter, r *http.Request) {
		if who := operator.FromContext(r.Context()); who != nil {
			_, _ = w.Write([]byte(who.Rights()))
		}
	}
	for _, pattern := range []string{"GET /livez", "GET /readyz", "GET /metrics", "GET /{$}", "GET /docs"} {
		mux.HandleFunc(pattern, rights)
	}
	for pattern, method := range map[string]string{"GET /v1/fleets": capgatepb.Fleets_ListFleets_FullMethodName,
		"GET /v1/sessions":            capgatepb.Operators_ListSessions_FullMethodName,
		"GET /v1/limits":              capgatepb.Usage_ListUsage_FullMethodName,
		"POST /v1/backends/{segment}": capgatepb.Fleets_DrainBackend_FullMethodName} {
		mux.HandleRPC(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, refusal := guard.Authorize(r.Context(), method)
			if refusal != nil {
				problem.Write(w, r, problem.Of(status.Err(refusal)))
				return
			}
			rights(w, r.WithContext(ctx))
		}))
	}
	g := guard.New(cfg)
	h, err := g.Handler(mux)
	if err != nil {
		t.Fatal(err)
	}
	return g, h
}

// request sends a request of a caller at an address. header holds alternating names and values.
func request(h http.Handler, line, who, from string, header ...string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequest(method, path, http.NoBody)
	if r.RemoteAddr = from; who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	here      = "192.0.2.1:1000"
	elsewhere = "192.0.2.2:1000"
)

func some() people {
	acme := &operator.Identity{}
	acme.Grant("acme", operator.Admin)
	mixed := &operator.Identity{Roles: operator.View}
	mixed.Grant("acme", operator.Operate)
	return people{"viewer": {Roles: operator.View}, "operator": {Roles: operator.Operate},
		"admin": {Roles: operator.Admin}, "acme": acme, "mixed": mixed, "nobody": {}}
}

// TestRoutes: each route asks for its role, and for all tenants if it names none.
func TestRoutes(t *testing.T) {
	t.Parallel()
	signIn := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSeeOther) })
	g, h := newGuard(t, guard.Config{Authenticators: []guard.Authenticator{some()}, SignIn: signIn})
	page := []string{"Accept", "text/html"}
	for _, test := range []struct {
		line, who string
		header    []string
		status    int
		says      string
	}{
		{"GET /livez", "", nil, 200, ""},
		{"GET /readyz", "", nil, 200, ""},
		{"GET /readyz?verbose", "", nil, 401, "OPERATOR_UNKNOWN"},
		{"GET /readyz?verbose", "acme", nil, 403, "OPERATOR_TENANT"},
		{"GET /readyz?verbose", "viewer", nil, 200, "viewer"},
		{"GET /metrics", "", nil, 401, "OPERATOR_UNKNOWN"},
		{"GET /v1/fleets", "", nil, 401, "OPERATOR_UNKNOWN"},
		{"GET /v1/fleets", "eve", nil, 401, "CREDENTIAL_INVALID"},
		{"GET /v1/fleets", "nobody", nil, 403, "ROLE_MISSING"},
		{"GET /v1/fleets", "acme", nil, 403, "OPERATOR_TENANT"},
		{"GET /v1/fleets", "mixed", nil, 200, "viewer; acme: operator"},
		{"GET /v1/limits", "nobody", nil, 403, "ROLE_MISSING"},
		{"GET /v1/limits", "acme", nil, 200, "; acme: admin"},
		{"GET /v1/sessions", "operator", nil, 403, "ROLE_MISSING"},
		{"GET /v1/sessions", "admin", nil, 200, "admin"},
		{"POST /v1/backends/x:drain", "viewer", nil, 403, "ROLE_MISSING"},
		{"POST /v1/backends/x:drain", "mixed", nil, 403, "OPERATOR_TENANT"},
		{"POST /v1/backends/x:drain", "operator", nil, 200, "operator"},
		{"GET /nothing", "", nil, 401, "OPERATOR_UNKNOWN"},
		{"GET /nothing", "viewer", nil, 404, "NO_SUCH_PATH"},
		{"GET /v1/fleets", "admin", []string{"X-Api-Key", "cg_viewer"}, 401, "CREDENTIAL_INVALID"},
		{"GET /v1/fleets", "admin", []string{"X-Api-Key", "sk-other"}, 200, "admin"},
		{"GET /v1/fleets", "", []string{"X-Api-Key", "sk-other"}, 401, "begins with cg_"},
		{"GET /v1/fleets", "admin", []string{"Authorization", "Bearer viewer"}, 401, "CREDENTIAL_INVALID"},
		{"GET /v1/fleets", "admin", []string{"X-Api-Key", "admin"}, 200, "admin"},
		{"GET /v1/fleets", "", []string{"Authorization", "Bearer"}, 401,
			"empty credential, two different ones, or a scheme"},
		{"GET /v1/fleets", "", []string{"Authorization", "Basic YTpi"}, 401, "after Bearer and a space"},
		{"GET /v1/fleets", "", []string{"X-Api-Key", ""}, 401, "after Bearer and a space"},
		{"POST /v1/backends/x:drain", "admin", []string{"Sec-Fetch-Site", "cross-site"}, 403, "CROSS_SITE"},
		{"POST /v1/backends/x:drain", "admin", []string{"Origin", "https://evil.example"}, 403, "CROSS_SITE"},
		{"POST /v1/backends/x:drain", "", []string{"Sec-Fetch-Site", "same-site"}, 403, "CROSS_SITE"},
		{"GET /", "", nil, 401, "OPERATOR_UNKNOWN"},
		{"GET /", "", page, 200, ""},
		{"GET /", "nobody", page, 403, "ROLE_MISSING"},
		{"GET /docs", "", page, 303, ""},
	} {
		w := request(h, test.line, test.who, elsewhere, test.header...)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s as %q with %q: %d %s, want %d %s", test.line, test.who, test.header, w.Code, w.Body,
				test.status, test.says)
		}
	}
	g.OpenMetrics(true)
	if w := request(h, "GET /metrics", "", elsewhere); w.Code != http.StatusOK {
		t.Errorf("open metrics: %d", w.Code)
	}
	if guard.Permits(context.Background(), capgatepb.Fleets_ListFleets_FullMethodName) {
		t.Error("a request without an operator is permitted")
	}
}

// TestRowsAreRequired: a route without a row, or a method without the option, fails the start.
func TestRowsAreRequired(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"GET /v1/secrets", "POST /v1/tenants/{id}", "/capgate.v1.Tenants/Drop",
		"/capgate.v1.Tenants", "/grpc.health.v1.Health/Check"} {
		mux, methods := guard.NewMux(), guard.NewMux()
		mux.Handle("GET /livez", http.NotFoundHandler())
		methods.HandleMethods("/capgate.v1.Calls/WatchCalls", name)
		if name[0] != '/' {
			mux.Handle(name, http.NotFoundHandler())
		} else {
			mux.HandleMethods(name)
		}
		for _, m := range []*guard.Mux{mux, methods} {
			if _, err := guard.New(guard.Config{}).Handler(m); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestGuesses: an address with ten wrong credentials has to wait for six seconds for each further one. Credentials
// that were accepted before, other addresses, and people without a role have not.
func TestGuesses(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		_, h := newGuard(t, guard.Config{Authenticators: []guard.Authenticator{some()}})
		try := func(who, from string, want int) {
			t.Helper()
			if w := request(h, "GET /v1/fleets", who, from); w.Code != want {
				t.Errorf("%s at %s: %d %s, want %d", who, from, w.Code, w.Body, want)
			}
		}
		try("admin", here, 200)
		for range 20 {
			try("nobody", here, 403)
			try("away", here, 503)
			try("", here, 401)
		}
		for range 10 {
			try("guess", here, 401)
		}
		for range 20 { // these count as no further attempts
			try("guess", "192.0.2.1:2000", 429)
			try("viewer", here, 429)
		}
		try("admin", here, 200)
		try("guess", elsewhere, 401)
		pass := func(d time.Duration) {
			time.Sleep(d) //nolint:forbidigo // in a bubble
		}
		for range 3 {
			pass(6*time.Second - 1)
			try("guess", here, 429)
			pass(1)
			try("guess", here, 401)
			try("guess", here, 429)
		}
		pass(time.Hour) // everything is forgiven
		for range 10 {
			try("guess", here, 401)
		}
		try("guess", here, 429)
	})
}

// TestAttemptsAreBounded: whatever is counted, the wait for the next attempt is at most six seconds.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	a := guard.NewAttempts(func() time.Time { return time.Unix(1, 0) })
	for range 1000 {
		a.Failed(here)
	}
	if got := a.Blocked("192.0.2.1"); got != 6*time.Second {
		t.Error(got)
	}
	a.Failed("[2001:db8::1]:1")
	for range 9 {
		if a.Failed("[2001:db8::ffff]:2"); a.Blocked(elsewhere) != 0 {
			t.Fatal("another network has to wait")
		}
	}
	if got := a.Blocked("2001:db8::3"); got != 6*time.Second {
		t.Errorf("the same /64: %v", got)
	}
}

// TestStartTokenInTheAddress: it becomes a session, and leaves the address. Neither wrong tokens nor pages of other
// sites keep its owner out.
func TestStartTokenInTheAddress(t *testing.T) {
	t.Parallel()
	issued, start := new(sessions), operator.NewStartToken()
	token := guard.NewStartToken(start)
	_, h := newGuard(t, guard.Config{Authenticators: []guard.Authenticator{token, some()}, Start: token,
		Sessions: issued})
	for line, want := range map[string]string{
		"GET /?token=" + start:               "/",
		"GET /docs?x=1&token=" + start:       "/docs?x=1",
		"GET //evil.example?token=" + start:  "/evil.example",
		"GET /\\evil.example?token=" + start: "/evil.example",
	} {
		issued.of = ""
		if w := request(h, line, "", here); w.Code != http.StatusSeeOther || w.Header().Get("Location") != want ||
			issued.of != "start token" || w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %d %v for %q, want %s", line, w.Code, w.Header(), issued.of, want)
		}
	}
	issued.of = ""
	for line, want := range map[string]int{"POST /v1/backends/x:drain?token=" + start: 401, "GET /docs?token=x": 401} {
		if w := request(h, line, "", here); w.Code != want || issued.of != "" {
			t.Errorf("%s: %d; issued %+v", line, w.Code, issued)
		}
	}
	for who, want := range map[string]int{start: 200, operator.NewStartToken(): 401} {
		if w := request(h, "GET /v1/fleets", who, "192.0.2.3:1"); w.Code != want {
			t.Errorf("as a credential: %d, want %d", w.Code, want)
		}
	}
	for range 20 { // failures of others at the same address do not keep the owner of the token out
		request(h, "GET /?token=guess", "", elsewhere)
	}
	if w := request(h, "GET /?token="+start, "", elsewhere); w.Code != http.StatusSeeOther ||
		issued.of != "start token" {
		t.Errorf("after wrong tokens: %d; issued %+v", w.Code, issued)
	}
	const browser = "192.0.2.77:1"
	for range 20 { // images of a page of another site
		image := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?token=x", nil)
		image.RemoteAddr = browser
		image.Header.Set("Sec-Fetch-Site", "cross-site")
		h.ServeHTTP(httptest.NewRecorder(), image)
	}
	if w := request(h, "GET /v1/fleets", operator.NewStartToken(), browser); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong credential after images of another page: %d", w.Code)
	}
}

// TestStreamsFollowTheirCredential: a stream ends when its credential becomes invalid or its rights change, and
// continues while these are unknown.
func TestStreamsFollowTheirCredential(t *testing.T) {
	t.Parallel()
	who, now := some(), ""
	var valid func(context.Context) bool
	follow := func(ctx context.Context, check func(context.Context) bool) (context.Context, context.CancelFunc) {
		valid = check
		return context.WithCancel(ctx)
	}
	moving := authenticate(func(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
		if name, _ := guard.Credential(r); name == "moving" {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+now)
		}
		return who.Authenticate(r)
	})
	_, h := newGuard(t, guard.Config{Authenticators: []guard.Authenticator{moving}, Follow: follow})
	now = "operator"
	if request(h, "GET /v1/fleets", "moving", here); valid != nil {
		t.Error("a response that does not last is followed")
	}
	request(h, "GET /v1/fleets", "moving", here, "Accept", "text/event-stream")
	if valid == nil {
		t.Fatal("a stream is not followed")
	}
	for name, want := range map[string]bool{"operator": true, "viewer": false, "admin": false, "acme": false,
		"revoked": false, "away": true} {
		if now = name; valid(t.Context()) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

type authenticate func(*http.Request) (*operator.Identity, bool, *call.Refusal)

func (a authenticate) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	return a(r)
}

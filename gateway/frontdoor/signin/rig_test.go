package signin_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

func TestMain(m *testing.M) {
	issuertest.Main()
	os.Exit(m.Run())
}

const goodKey = "cg_a-good-key"

// people authenticates ann, and the holder of one key.
type people struct {
	mu     sync.Mutex
	barred string // name of a person or key
	rights string // of all
	away   bool   // the rights are unknown
	asked  int    // times, since then
}

func (p *people) Key(_ context.Context, key string) (*session.Session, *call.Refusal) {
	if key != goodKey {
		return nil, &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID", Message: "the key is wrong"}
	}
	return &session.Session{Via: session.ViaKey, Key: "aaaa"}, nil
}

func (p *people) Check(_ context.Context, s *session.Session) (string, *call.Refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		p.asked++
		return "", &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_UNAVAILABLE", Message: "try again later"}
	}
	if s.Via == session.ViaPerson && s.User != "ann" || s.Name() == p.barred {
		return "", &call.Refusal{Kind: call.PermissionDenied, Reason: "ROLE_MISSING", Message: "you have no role here"}
	}
	return p.rights, nil
}

func (p *people) give(rights string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rights = rights
}

// leave makes the rights of people unknown until it is called again.
func (p *people) leave(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away, p.asked = away, 0
}

// questions is the number of requests since leave.
func (p *people) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *people) bar(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.barred = name
}

// port is a port with sign-in, at a server of its own, and what stands behind it.
type port struct {
	*httptest.Server
	handler  *signin.Handler
	sessions *session.Manager
	people   *people
	issuer   *issuertest.Issuer
}

// rig changes a port before it starts.
type rig struct {
	kind      session.Kind
	mount     string
	url       string // configured
	cleartext bool
	issuer    *issuertest.Issuer
	sessions  *session.Manager
	behave    string
	log       io.Writer
}

func open(t *testing.T, r rig) *port {
	t.Helper()
	p := &port{people: &people{}, issuer: r.issuer, sessions: r.sessions}
	if p.issuer == nil {
		p.issuer = issuertest.Start(t)
	}
	if r.behave != "" {
		p.issuer.Behave(t, r.behave)
	}
	if p.sessions == nil {
		p.sessions = session.New(gatewaytest.OpenStore(t, "embedded").People(), session.Options{})
	}
	if r.kind == "" {
		r.kind = session.Admin
	}
	if r.log == nil {
		r.log = io.Discard
	}
	mux := http.NewServeMux()
	p.handler = signin.New(signin.Config{
		Kind: r.kind, Mount: r.mount, Home: r.mount + "/", Keys: "API key", Sessions: p.sessions, People: p.people,
		Logins: verifier(t, p.issuer),
		Issuers: func() []token.Client {
			return []token.Client{{Issuer: "corp", ID: "gate", Scopes: []string{"openid"}}}
		},
		URL: func() string { return r.url }, Limiter: session.NewLimiter(nil),
		Network: func(r *http.Request) string { return r.Header.Get("X-Test-Network") },
		Log:     slog.New(slog.NewTextHandler(r.log, nil)),
	})
	for pattern, serve := range p.handler.Routes() {
		mux.Handle(pattern, serve)
	}
	who := func(w http.ResponseWriter, r *http.Request) {
		s, refusal := p.handler.Session(r)
		if refusal != nil {
			http.Error(w, refusal.Reason, http.StatusUnauthorized)
			return
		}
		p.handler.WriteMe(w, r, &capgatepb.GetMeResponse{Name: s.Name(), User: s.User, Groups: s.Groups}, s)
	}
	mux.HandleFunc(r.mount+"/v1/me", who)
	mux.HandleFunc("GET "+r.mount+"/{$}", p.handler.ToSignIn)
	mux.Handle("GET "+r.mount+"/v1/events", p.handler.Follow(http.HandlerFunc(stream)))
	own := http.NewCrossOriginProtection()
	if p.Server = httptest.NewUnstartedServer(own.Handler(mux)); r.cleartext {
		p.Start()
	} else {
		p.StartTLS()
	}
	check.Cleanup(t, p.Close)
	return p
}

// stream is a response that lasts until its context ends.
func stream(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// verifier verifies tokens of an issuer, for the tenant acme.
func verifier(t *testing.T, i *issuertest.Issuer) *token.Verifier {
	t.Helper()
	d := tenant.NewDirectory(nil)
	d.Replace(map[string]*tenant.Settings{"acme": {ID: "acme"}})
	v := token.New(d, token.Options{})
	v.Replace([]token.Issuer{{Name: "corp", URL: i.URL, Audiences: []string{"capgate"},
		Algorithms: []string{"ES256"}, Leeway: time.Minute,
		Claims: token.Claims{Tenant: "tenant_id", User: "sub", Groups: "groups"}, Scopes: tenant.Read,
		Source: token.Source{Refresh: time.Hour, MaxStale: time.Hour, Timeout: check.Patience, Roots: i.Roots}}})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { v.Run(ctx) })
	check.Cleanup(t, func() { stop(); check.Ended(t, &running, "the background work to end") })
	return v
}

// browsers have networks of their own.
var browsers atomic.Int64 //nolint:gochecknoglobals // a counter

// browser is a client with cookies that follows no redirect by itself.
type browser struct {
	*testing.T
	http.Client
	network string
	html    bool
}

func (p *port) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check.Must(t, err)
	roots := p.issuer.Roots.Clone()
	if cert := p.Certificate(); cert != nil {
		roots.AddCert(cert)
	}
	return &browser{T: t, network: strconv.FormatInt(browsers.Add(1), 10), html: true, Client: http.Client{
		Jar: jar, Timeout: check.Patience,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// reply is a response that was read.
type reply struct {
	*http.Response
	body string
}

// to returns the URL to which a response redirects.
func (r reply) to() string { return r.Header.Get("Location") }

// do sends a request; more has further headers, as names and values.
func (b *browser) do(method, address string, form url.Values, more ...string) reply {
	b.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(b.Context(), method, address, body)
	check.Must(b, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.html {
		req.Header.Set("Accept", "text/html")
	}
	req.Header.Set("X-Test-Network", b.network)
	for n := 0; n < len(more); n += 2 {
		req.Header.Set(more[n], more[n+1])
	}
	resp, err := b.Do(req)
	check.Must(b, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		b.Fatal(err)
	}
	return reply{resp, string(text)}
}

func (b *browser) get(address string, more ...string) reply {
	b.Helper()
	return b.do(http.MethodGet, address, nil, more...)
}

// signIn goes to the issuer and back, and returns the response to that.
func (b *browser) signIn(base, next string) reply {
	b.Helper()
	out := b.get(base + "/signin/oidc/corp?" + url.Values{"next": {next}}.Encode())
	if out.StatusCode != http.StatusSeeOther {
		b.Fatalf("%d %s", out.StatusCode, out.body)
	}
	back := b.get(out.to())
	if back.StatusCode != http.StatusFound {
		b.Fatalf("at the issuer: %d %s", back.StatusCode, back.body)
	}
	return b.get(back.to())
}

// me returns the name under which the port knows the browser, or a reason.
func (b *browser) me(base string) string {
	b.Helper()
	r := b.get(base + "/v1/me")
	if r.StatusCode != http.StatusOK {
		return strings.TrimSpace(r.body)
	}
	return field(b.T, r.body, "name")
}

// cookies returns the browser's, by name.
func (b *browser) cookies(base string) map[string]string {
	b.Helper()
	u, err := url.Parse(base)
	check.Must(b, err)
	all := map[string]string{}
	for _, c := range b.Jar.Cookies(u) {
		all[c.Name] = c.Value
	}
	return all
}

func (b *browser) setCookie(base, name, value string) {
	b.Helper()
	u, err := url.Parse(base)
	check.Must(b, err)
	b.Jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: u.Scheme == "https"}})
}

func names(all map[string]string) (names []string) {
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

package guard

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/accept"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
)

// Authenticator authenticates operators by one kind of credential.
type Authenticator interface {
	// Authenticate returns the operator of a request. If known is false, the request has no credential of this kind.
	// It is called from any goroutine, and may wait until the request's context ends.
	Authenticate(*http.Request) (identity *operator.Identity, known bool, refusal *call.Refusal)
}

// SessionIssuer makes cookie sessions.
type SessionIssuer interface {
	// Issue sets the cookie of a new session of an operator in the header of a response.
	Issue(w http.ResponseWriter, r *http.Request, identity *operator.Identity) error
}

// Config configures a Guard.
type Config struct {
	// Authenticators are tried in order. The first one that knows the credential decides.
	Authenticators []Authenticator
	Insecure       bool        // no credential is required; every request has the role admin
	Start          *StartToken // also accepted in the query, in exchange for a session; optional
	Sessions       SessionIssuer
	// SignIn serves browsers in place of a refusal; optional.
	SignIn http.Handler
	// Follow returns a context that ends when check, which it calls periodically, returns false. If nil, streams
	// outlast their credentials. It is session.Manager.Follow.
	Follow func(ctx context.Context, check func(context.Context) bool) (context.Context, context.CancelFunc)
	// Client returns the address of a request's client; nil means the address of the connection.
	Client func(*http.Request) string
}

// Guard authenticates and authorizes the requests of the admin API.
type Guard struct {
	cfg         Config
	openMetrics atomic.Bool
	attempts    *Attempts
	accepted    atomic.Pointer[func(*http.Request)]

	mu    sync.Mutex
	known *simplelru.LRU[[sha256.Size]byte, struct{}] // digests of accepted credentials
}

// maxKnown is the maximum number of digests.
const maxKnown = 1024

// New returns a Guard.
func New(cfg Config) *Guard {
	if cfg.Client == nil {
		cfg.Client = func(r *http.Request) string { return r.RemoteAddr }
	}
	known, _ := simplelru.NewLRU[[sha256.Size]byte, struct{}](maxKnown, nil) // fails only for a size of 0
	return &Guard{cfg: cfg, attempts: NewAttempts(nil), known: known}
}

// Insecure returns a Guard that requires no credential.
func Insecure() *Guard { return New(Config{Insecure: true}) }

// OpenMetrics sets whether /metrics is open.
func (g *Guard) OpenMetrics(open bool) { g.openMetrics.Store(open) }

// OnAccepted sets a function that is called for each authenticated request, on the request's goroutine.
func (g *Guard) OnAccepted(f func(*http.Request)) { g.accepted.Store(&f) }

// unnamed is the operator of all requests to an insecure admin API.
var unnamed = &operator.Identity{Name: operator.Unnamed, Roles: operator.Admin, Via: operator.ViaInsecure}

// Handler returns the guarded handler of a mux. The error names routes without a row.
func (g *Guard) Handler(mux *Mux) (http.Handler, error) {
	if err := mux.complete(); err != nil {
		return nil, err
	}
	next := problem.Mux(&mux.mux, mux.allowed)
	origin := http.NewCrossOriginProtection() // an operator's browser may also show other sites
	origin.SetDenyHandler(http.HandlerFunc(problem.CrossSite))
	return origin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.mux.Handler(r)
		access, there := mux.rows[pattern]
		if !there { // the response must reveal nothing more
			access = view
		}
		g.serve(w, r, access.of(r, g.openMetrics.Load()), next)
	})), nil
}

func (g *Guard) serve(w http.ResponseWriter, r *http.Request, access Access, next http.Handler) {
	if g.exchange(w, r) {
		return
	}
	identity, refusal := g.authenticate(r)
	ctx := r.Context()
	if refusal == nil && g.cfg.Follow != nil && !g.cfg.Insecure && session.Lasts(r) {
		var cancel context.CancelFunc
		ctx, cancel = g.cfg.Follow(ctx, g.sameRights(r, identity.Rights()))
		defer cancel()
	}
	if access.Role == byMethod {
		if !isGRPC(r) && refusal != nil { // gRPC receives the refusal from an interceptor
			g.refuse(w, r, refusal)
			return
		}
	} else if access.Role != 0 {
		if refusal == nil {
			identity, refusal = access.check(identity)
		}
		if refusal != nil && !(access.Page && g.leadsToSignIn(r, refusal)) {
			g.refuse(w, r, refusal)
			return
		}
	}
	next.ServeHTTP(w, r.WithContext(newContext(ctx, identity, refusal)))
}

// authenticate returns the operator of a request, or a refusal.
func (g *Guard) authenticate(r *http.Request) (*operator.Identity, *call.Refusal) {
	if g.cfg.Insecure {
		return unnamed, nil
	}
	digest, present := digestOf(r)
	client := g.cfg.Client(r)
	wait := g.attempts.Blocked(client)
	if present && wait > 0 && !g.remembers(digest) {
		return nil, &call.Refusal{Kind: call.ResourceExhausted, Reason: "SIGN_IN_LIMITED", RetryAfter: wait,
			Message: "too many credentials from this address were wrong; try again later"}
	}
	identity, refusal := g.identify(r)
	if f := g.accepted.Load(); refusal == nil && f != nil {
		(*f)(r)
	}
	switch {
	case !present: // an expired session is not an attempt
	case refusal == nil:
		g.remember(digest)
	case refusal.Kind == call.Unauthenticated:
		g.attempts.Failed(client)
	}
	return identity, refusal
}

// identify returns the operator of a request from the authenticators.
func (g *Guard) identify(r *http.Request) (*operator.Identity, *call.Refusal) {
	for _, by := range g.cfg.Authenticators {
		if identity, known, refusal := by.Authenticate(r); known {
			return identity, refusal
		}
	}
	switch _, shown := tenant.ShownBy(fields(r.Header)); shown {
	case tenant.ShowsNothing:
		return nil, refusedUnknown
	case tenant.ShowsForeign:
		return nil, refusedForeign
	case tenant.ShowsEmpty, tenant.ShowsTwo:
		return nil, refusedEmpty
	case tenant.ShowsOne:
	}
	return nil, refusedCredential
}

// sameRights returns a function that reports whether the credential of a request still gives the same rights. A
// credential that cannot be checked at the moment keeps its rights.
func (g *Guard) sameRights(r *http.Request, rights string) func(context.Context) bool {
	again := r.Clone(r.Context()) // handlers may change the original's headers
	return func(ctx context.Context) bool {
		identity, refusal := g.identify(again.WithContext(ctx))
		return refusal == nil && identity.Rights() == rights || refusal != nil && refusal.Kind == call.Unavailable
	}
}

func (g *Guard) remembers(digest [sha256.Size]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.known.Get(digest)
	return ok
}

func (g *Guard) remember(digest [sha256.Size]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known.Add(digest, struct{}{})
}

// exchange exchanges a start token in the query for a session, and redirects to the path without it. It reports
// whether the request had a token.
func (g *Guard) exchange(w http.ResponseWriter, r *http.Request) bool {
	if g.cfg.Start == nil || g.cfg.Sessions == nil || r.Method != http.MethodGet || !r.URL.Query().Has("token") {
		return false
	}
	head := w.Header()
	head.Set("Referrer-Policy", "no-referrer") // the URL has the token
	head.Set("Cache-Control", "no-store")
	token := r.URL.Query().Get("token")
	// the token cannot be guessed, so failures of other clients must not lock its owner out
	if !g.cfg.Start.Matches(token) {
		if !ofAnotherPage(r) {
			g.attempts.Failed(g.cfg.Client(r))
		}
		return false
	}
	if err := g.cfg.Sessions.Issue(w, r, g.cfg.Start.Identity()); err != nil {
		g.refuse(w, r, &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_UNAVAILABLE",
			Message: "a session cannot be made at the moment"})
		return true
	}
	query := r.URL.Query()
	query.Del("token")
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/\\"), RawQuery: query.Encode()} // never another host
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
	return true
}

// ofAnotherPage reports whether a page of another site caused the request, such as for an image.
func ofAnotherPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, refusal *call.Refusal) {
	w.Header().Set("Cache-Control", "no-store")
	if g.leadsToSignIn(r, refusal) {
		g.cfg.SignIn.ServeHTTP(w, r)
		return
	}
	problem.Write(w, r, problem.Of(status.Err(refusal)))
}

// leadsToSignIn reports whether the client of a refused request can sign in.
func (g *Guard) leadsToSignIn(r *http.Request, refusal *call.Refusal) bool {
	return g.cfg.SignIn != nil && refusal.Kind == call.Unauthenticated && wantsPage(r)
}

// wantsPage reports whether a request is for an HTML page.
func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && accept.Named(r.Header, "text/html")
}

// isGRPC reports whether a request uses the gRPC protocol.
func isGRPC(r *http.Request) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/grpc")
	return ok && !strings.HasPrefix(rest, "-web")
}

// patience is the timeout for the authentication of a request.
const patience = 5 * time.Second

func withPatience(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), patience)
}

package signin

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

// People determines which people may use a port.
type People interface {
	// Key returns the session of the holder of a key. It may wait until ctx ends.
	Key(ctx context.Context, key string) (*session.Session, *call.Refusal)
	// Check returns a refusal if the person or key of a session may not, or no longer, use the port. Otherwise it
	// returns a text that identifies its rights, and changes with them.
	Check(ctx context.Context, s *session.Session) (rights string, refusal *call.Refusal)
}

// Logins authenticates people at issuers. *token.Verifier implements it.
type Logins interface {
	Authorize(ctx context.Context, c token.Client, l token.Login) (string, error)
	Exchange(ctx context.Context, c token.Client, l token.Login, a token.Answer) (tenant.Identity, error)
}

// Config configures a Handler. All fields but Home, Groups and Audit are required.
type Config struct {
	Kind     session.Kind
	Mount    string                     // prefix of the routes; empty means none
	Home     string                     // path after a sign-in without a requested one; default /
	Keys     string                     // description of the keys that the form accepts
	Sessions *session.Manager           // the caller must run it
	People   People                     // people of this port
	Logins   Logins                     // all issuers
	Issuers  func() []token.Client      // this gateway at each issuer at which people may sign in; must not block
	URL      func() string              // URL of the port for people; empty means the host of each request
	Network  func(*http.Request) string // returns the network of a client, by which attempts are counted
	Limiter  *session.Limiter           // limits attempts
	Groups   func(group string) bool    // reports whether the configuration names a group; nil means none
	Audit    *audit.Log                 // optional
	Log      *slog.Logger
}

// Handler serves the pages of a port. It is safe for concurrent use and need not be closed.
type Handler struct {
	cfg       Config
	exchanges chan struct{} // limits requests to issuers
	used      *usedStates
}

// maxExchanges is the maximum number of concurrent requests to issuers.
const maxExchanges = 32

// New returns a Handler.
func New(cfg Config) *Handler {
	if cfg.Home == "" {
		cfg.Home = "/"
	}
	if cfg.Groups == nil {
		cfg.Groups = func(string) bool { return false }
	}
	return &Handler{cfg: cfg, exchanges: make(chan struct{}, maxExchanges), used: newUsedStates()}
}

// Routes returns the handlers by pattern of http.ServeMux. None requires a session.
func (h *Handler) Routes() map[string]http.HandlerFunc {
	of := map[string]http.HandlerFunc{
		"GET /signin":               h.page,
		"GET /signin/style.css":     h.style,
		"GET /signin/oidc/{issuer}": h.begin,
		"GET /signin/callback":      h.callback,
		"POST /signin/key":          h.signInWithKey,
		"POST /signout":             h.signOut,
	}
	if h.cfg.Kind == session.Admin {
		of["GET /cli"], of["POST /cli"] = h.program, h.letIn
		of["POST /cli/token"], of["POST /cli/end"] = h.programToken, h.programEnd
	}
	all := make(map[string]http.HandlerFunc, len(of))
	for pattern, serve := range of {
		verb, path, _ := strings.Cut(pattern, " ")
		all[verb+" "+h.cfg.Mount+path] = serve
	}
	return all
}

// start starts the session of a person or key that may use the port. A previous session of the browser ends, so that
// another client that set or knows its cookie cannot use it.
func (h *Handler) start(w http.ResponseWriter, r *http.Request, s *session.Session) *call.Refusal {
	if _, refusal := h.cfg.People.Check(r.Context(), s); refusal != nil {
		return refusal
	}
	if before, refusal := h.open(r); refusal == nil {
		if refusal = h.cfg.Sessions.EndOwn(r.Context(), before); refusal != nil {
			h.cfg.Log.Warn("previous session not ended after a new sign-in", "name", before.Name(), "error", refusal)
		}
	}
	cookie, refusal := h.cfg.Sessions.Issue(r.Context(), h.cfg.Kind, s)
	if refusal != nil {
		return refusal
	}
	h.setCookie(w, r, h.sessionCookie(r), cookie, s.Expires)
	h.record(s, "session.signed_in")
	return nil
}

// record writes a sign-in or sign-out to the log and the audit log.
func (h *Handler) record(s *session.Session, what string) {
	h.cfg.Log.Info("a person's session", "what", what, "name", s.Title(), "at", string(h.cfg.Kind), "session", s.ID)
	h.cfg.Audit.RecordChange(&audit.Change{Actor: s.Title(), What: what, Tenant: s.Tenant,
		Targets: audit.Targets("session", s.ID, "at", string(h.cfg.Kind))})
}

// attempt counts an attempt to sign in.
func (h *Handler) attempt(r *http.Request) *call.Refusal {
	return h.cfg.Limiter.Attempt(h.cfg.Network(r))
}

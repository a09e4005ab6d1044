package signin

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

// patience is the maximum time between the redirect to the issuer and the callback.
const patience = 10 * time.Minute

// begun is a started sign-in, in the browser's cookie.
type begun struct {
	token.Login
	Issuer string
	Client string // client id, in case the configuration changes meanwhile
	Next   string
	At     time.Time
}

// begin redirects the browser to an issuer.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request) {
	name, next := r.PathValue("issuer"), h.next(r.URL.Query().Get("next"))
	of := h.issuer(name)
	if of == nil {
		h.fail(w, r, next, &call.Refusal{Kind: call.NotFound, Reason: "SIGN_IN_FAILED",
			Message: "no issuer with this name is configured for sign-in here"})
		return
	}
	if to := h.moved(r, r.URL.RequestURI()); to != "" { // the issuer redirects the browser back to that name
		h.redirect(w, r, to)
		return
	}
	refusal := h.safe(r)
	if refusal == nil {
		refusal = h.attempt(r)
	}
	if refusal != nil {
		h.fail(w, r, next, refusal)
		return
	}
	l := begun{Login: token.NewLogin(h.at(r).base+h.cfg.Mount+"/signin/callback", session.NewID(), session.NewID()),
		Issuer: name, Client: of.ID, Next: next, At: time.Now()}
	to, err := h.cfg.Logins.Authorize(r.Context(), *of, l.Login)
	if err != nil {
		h.cfg.Log.Warn("issuer not available for sign-in", "issuer", name, "error", err)
		h.fail(w, r, next, refusedIssuerAway)
		return
	}
	sealed, refusal := h.cfg.Sessions.Seal(r.Context(), h.purpose(), l)
	if refusal != nil {
		h.fail(w, r, next, refusal)
		return
	}
	h.setCookie(w, r, h.loginCookie(r), sealed, l.At.Add(patience))
	h.redirect(w, r, to)
}

func (h *Handler) purpose() string { return "login " + string(h.cfg.Kind) }

// issuer returns an issuer by its name; nil means unknown.
func (h *Handler) issuer(name string) *token.Client {
	all := h.cfg.Issuers()
	if n := slices.IndexFunc(all, func(i token.Client) bool { return i.Issuer == name }); n >= 0 {
		return &all[n]
	}
	return nil
}

// callback starts the session of a person after the redirect from the issuer. It does not count as an attempt: begin
// has counted it, and its cookie is valid once.
func (h *Handler) callback(w http.ResponseWriter, r *http.Request) {
	var l begun
	err := h.cfg.Sessions.Unseal(r.Context(), h.purpose(), cookie(r, h.loginCookie(r)), &l)
	h.setCookie(w, r, h.loginCookie(r), "", time.Time{})
	q := r.URL.Query()
	states, codes := q["state"], q["code"]
	switch {
	case err != nil || time.Since(l.At) > patience || l.State == "" || l.Redirect == "":
		h.fail(w, r, h.cfg.Home, refusedBrowser)
		return
	case len(states) != 1 || !session.SameSecret(states[0], l.State) || !h.used.first(l.State):
		h.fail(w, r, h.next(l.Next), refusedBrowser)
		return
	case q.Has("error") || len(codes) != 1 || codes[0] == "":
		h.cfg.Log.Info("issuer refused a sign-in", "issuer", l.Issuer, "error", errorCode(q.Get("error")))
		h.fail(w, r, h.next(l.Next), refusedByIssuer(errorCode(q.Get("error"))))
		return
	}
	s, refusal := h.person(r, &l, token.Answer{Code: codes[0], Issuer: strings.Join(q["iss"], " ")})
	if refusal == nil {
		refusal = h.start(w, r, s)
	}
	if refusal != nil {
		h.fail(w, r, h.next(l.Next), refusal)
		return
	}
	h.redirect(w, r, h.at(r).path+h.next(l.Next))
}

// person returns the session of the person authenticated by an issuer.
func (h *Handler) person(r *http.Request, l *begun, a token.Answer) (*session.Session, *call.Refusal) {
	of := h.issuer(l.Issuer)
	if of == nil || of.ID != l.Client {
		return nil, refusedBrowser
	}
	select {
	case h.exchanges <- struct{}{}:
		defer func() { <-h.exchanges }()
	default:
		return nil, refusedIssuerBusy
	}
	who, err := h.cfg.Logins.Exchange(r.Context(), *of, l.Login, a)
	if err != nil {
		h.cfg.Log.Warn("sign-in failed", "issuer", l.Issuer, "error", err)
		return nil, refusedToken
	}
	return h.sessionOf(&who), nil
}

func (h *Handler) sessionOf(who *tenant.Identity) *session.Session {
	return &session.Session{Via: session.ViaPerson, Issuer: who.Key, User: who.User, Tenant: who.Tenant,
		Scopes: who.Scopes.Names(), Groups: session.KeepGroups(who.Groups(), h.cfg.Groups)}
}

// errorCode returns an error of an issuer if it is one of the known codes (RFC 6749 §4.1.2.1, OpenID Connect Core
// §3.1.2.6): the query is not authenticated.
func errorCode(code string) string {
	switch code {
	case "access_denied", "invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope",
		"server_error", "temporarily_unavailable", "interaction_required", "login_required",
		"account_selection_required", "consent_required":
		return code
	}
	return "no code"
}

func refusedByIssuer(code string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "SIGN_IN_FAILED",
		Message: "the issuer did not sign you in (" + code + ")"}
}

var (
	refusedBrowser = &call.Refusal{Kind: call.PermissionDenied, Reason: "SIGN_IN_FAILED",
		Message: "this response does not belong to a sign-in started in this browser, or arrived too late; sign in " +
			"again"}
	refusedToken = &call.Refusal{Kind: call.PermissionDenied, Reason: "SIGN_IN_FAILED",
		Message: "the issuer's response is not valid for this sign-in; sign in again, and if that fails, contact " +
			"an operator: the reason is in the gateway's log"}
	refusedIssuerAway = &call.Refusal{Kind: call.Unavailable, Reason: "SIGN_IN_FAILED", RetryAfter: 5 * time.Second,
		Message: "the issuer is not available at the moment; try again later"}
	refusedIssuerBusy = &call.Refusal{Kind: call.ResourceExhausted, Reason: "SIGN_IN_LIMITED", RetryAfter: time.Second,
		Message: "too many people are signing in at the moment; try again"}
)

// maxUsed is the maximum number of remembered states.
const maxUsed = 10_000

// usedStates remembers the states of sign-ins that returned to this replica. The issuer's code is valid only once
// anyway.
type usedStates struct {
	mu  sync.Mutex
	all *simplelru.LRU[string, struct{}]
}

func newUsedStates() *usedStates {
	all, _ := simplelru.NewLRU[string, struct{}](maxUsed, nil) // the size is positive
	return &usedStates{all: all}
}

// first reports whether a state is used for the first time.
func (u *usedStates) first(state string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all.Contains(state) {
		return false
	}
	u.all.Add(state, struct{}{})
	return true
}

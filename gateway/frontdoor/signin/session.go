package signin

import (
	"context"
	"net/http"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/session"
)

// csrfHeader repeats the secret of a session in unsafe requests. Pages of other sites cannot know it, and cannot send
// the header without a permission that no response of this gateway gives.
const csrfHeader = "X-CSRF-Token"

// Has reports whether a request has a cookie of this port, valid or not.
func (h *Handler) Has(r *http.Request) bool { return cookie(r, h.sessionCookie(r)) != "" }

// open returns the session of a request's cookie.
func (h *Handler) open(r *http.Request) (*session.Session, *call.Refusal) {
	return h.cfg.Sessions.Open(r.Context(), h.cfg.Kind, cookie(r, h.sessionCookie(r)))
}

// Session returns the session of a request whose person may still use the port. An unsafe request must have the
// session's secret as well.
func (h *Handler) Session(r *http.Request) (*session.Session, *call.Refusal) {
	s, refusal := h.open(r)
	if refusal == nil && hasEffects(r) && !session.SameSecret(r.Header.Get(csrfHeader), s.CSRF) {
		refusal = refusedCSRF
	}
	if refusal == nil {
		_, refusal = h.cfg.People.Check(r.Context(), s)
	}
	if refusal != nil {
		return nil, refusal
	}
	return s, nil
}

var refusedCSRF = &call.Refusal{Kind: call.PermissionDenied, Reason: "CSRF_TOKEN_MISSING",
	Message: "an unsafe request with a session requires the header X-CSRF-Token: GET /v1/me returns its value"}

// hasEffects reports whether a method is unsafe (RFC 9110 §9.2.1).
func hasEffects(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

// Follow ends the streams of next when the sessions of their requests end, or the rights of their people change.
func (h *Handler) Follow(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !session.Lasts(r) || !h.Has(r) {
			next.ServeHTTP(w, r)
			return
		}
		s, refusal := h.open(r)
		var rights string
		if refusal == nil {
			rights, refusal = h.cfg.People.Check(r.Context(), s)
		}
		if refusal != nil {
			next.ServeHTTP(w, r) // next refuses the request
			return
		}
		ctx, cancel := h.cfg.Sessions.Follow(r.Context(), func(ctx context.Context) bool {
			now, refusal := h.cfg.People.Check(ctx, s)
			return h.cfg.Sessions.Valid(s) &&
				(refusal == nil && now == rights || refusal != nil && refusal.Kind == call.Unavailable)
		})
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

package signin

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/session"
)

// maxForm is the maximum size of a form, in bytes.
const maxForm = 8 << 10

// signInWithKey starts the session of the holder of a key.
func (h *Handler) signInWithKey(w http.ResponseWriter, r *http.Request) {
	next, refusal := h.cfg.Home, h.safe(r)
	if refusal == nil {
		refusal = h.attempt(r) // before the form is read, which may take long
	}
	if refusal != nil {
		w.Header().Set("Connection", "close") // otherwise the response would wait for the form
	} else {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if r.ParseForm() != nil {
			refusal = refusedForm
		}
		next = h.next(r.PostForm.Get("next"))
	}
	var s *session.Session
	if refusal == nil {
		s, refusal = h.cfg.People.Key(r.Context(), strings.TrimSpace(r.PostForm.Get("key")))
	}
	if refusal == nil {
		refusal = h.start(w, r, s)
	}
	if refusal != nil {
		h.fail(w, r, next, refusal)
		return
	}
	h.redirect(w, r, h.at(r).path+next)
}

// Issue starts a session for a request without the form, such as for a start token in a link.
func (h *Handler) Issue(w http.ResponseWriter, r *http.Request, s *session.Session) *call.Refusal {
	if refusal := h.safe(r); refusal != nil {
		return refusal
	}
	return h.start(w, r, s)
}

// signOut ends the session of a request. The secret of the session may also be in the form.
func (h *Handler) signOut(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	s, refusal := h.open(r)
	if refusal == nil && !session.SameSecret(r.Header.Get(csrfHeader), s.CSRF) &&
		(r.ParseForm() != nil || !session.SameSecret(r.PostForm.Get("csrf_token"), s.CSRF)) {
		h.problem(w, r, refusedCSRF)
		return
	}
	h.setCookie(w, r, h.sessionCookie(r), "", time.Time{})
	if refusal == nil {
		refusal = h.end(r.Context(), s)
	} else {
		refusal = nil // there was no session
	}
	switch {
	case refusal != nil:
		h.fail(w, r, h.cfg.Home, refusal)
	case wantsPage(r):
		h.redirect(w, r, h.at(r).path+h.cfg.Mount+"/signin?out=1")
	default:
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
	}
}

// end revokes a session, and records that.
func (h *Handler) end(ctx context.Context, s *session.Session) *call.Refusal {
	refusal := h.cfg.Sessions.EndOwn(ctx, s)
	if refusal == nil {
		h.record(s, "session.signed_out")
	}
	return refusal
}

var refusedForm = &call.Refusal{Kind: call.InvalidArgument, Reason: "SIGN_IN_FAILED",
	Message: "the form cannot be read, or is too long"}

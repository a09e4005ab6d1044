package signin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
)

// A person who has signed in with a browser gives a program on the same machine a session, as for capgate login (RFC
// 8252):
//
//	program: GET /cli?port=P&challenge=C&state=S in the browser; it listens at 127.0.0.1:P
//	person:  POST /cli, with the session and its secret; the response redirects to 127.0.0.1:P with a code
//	program: POST /cli/token with the code and the verifier of C (RFC 7636); the response has a session of its own
//
// Without a port, the page shows the code. A code is useless without the verifier, which the program keeps.

// codeLife is the validity of a code.
const codeLife = time.Minute

// wanted is the request of a program.
type wanted struct{ Port, Challenge, State string }

// grant is the sealed content of a code.
type grant struct {
	ID        string          `json:"id"`
	Session   session.Session `json:"session"`
	Challenge string          `json:"challenge"`
	Until     time.Time       `json:"until"`
}

// programContent is the content of the page for a program.
type programContent struct {
	wanted
	Path    string
	Session *session.Session
	Code    string // empty means not yet issued
}

// maxState is the maximum length of the state of a program's request, in bytes.
const maxState = 64

// parseWanted parses the parameters of a program. It returns false if they are invalid.
func parseWanted(v url.Values) (w wanted, ok bool) {
	w = wanted{v.Get("port"), v.Get("challenge"), v.Get("state")}
	port, err := strconv.ParseUint(w.Port, 10, 16)
	digest, wrong := base64.RawURLEncoding.Strict().DecodeString(w.Challenge)
	named := w.State != "" && len(w.State) <= maxState && !strings.ContainsFunc(w.State, func(c rune) bool {
		return (c < 'A' || c > 'Z') && (c < '2' || c > '7')
	})
	return w, err == nil && strconv.FormatUint(port, 10) == w.Port && wrong == nil && len(digest) == sha256.Size &&
		named
}

// program shows the page on which a person allows a program to act on the person's behalf.
func (h *Handler) program(w http.ResponseWriter, r *http.Request) {
	if to := h.moved(r, r.URL.RequestURI()); to != "" {
		h.redirect(w, r, to)
		return
	}
	asked, ok := parseWanted(r.URL.Query())
	refusal := h.safe(r)
	if !ok {
		refusal = refusedProgram
	}
	if refusal != nil {
		h.fail(w, r, h.cfg.Home, refusal)
		return
	}
	s, refusal := h.Session(get(r))
	if refusal != nil {
		h.ToSignIn(w, r)
		return
	}
	h.writeProgram(w, programContent{wanted: asked, Path: h.at(r).path + h.cfg.Mount, Session: s})
}

func (h *Handler) writeProgram(w http.ResponseWriter, c programContent) {
	var b strings.Builder
	if err := programTemplate.Execute(&b, c); err != nil { // every content can be rendered
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	secure(w.Header())
	// The form's response redirects to the program.
	w.Header().Set("Content-Security-Policy", strings.Replace(securityPolicy, "form-action 'self'",
		"form-action 'self' http://127.0.0.1:"+c.Port, 1))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(b.String())) // an error means that the client has disconnected
}

// letIn issues a code for the program. The secret of the session is in the form.
func (h *Handler) letIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() != nil {
		h.fail(w, r, h.cfg.Home, refusedForm)
		return
	}
	asked, ok := parseWanted(r.PostForm)
	s, refusal := h.open(r)
	switch {
	case !ok:
		refusal = refusedProgram
	case refusal == nil && !session.SameSecret(r.PostForm.Get("csrf_token"), s.CSRF):
		refusal = refusedCSRF
	}
	if refusal == nil {
		_, refusal = h.cfg.People.Check(r.Context(), s)
	}
	var code string
	if refusal == nil {
		code, refusal = h.cfg.Sessions.Seal(r.Context(), "program", grant{ID: session.NewID(), Session: *s,
			Challenge: asked.Challenge, Until: time.Now().Add(codeLife)})
	}
	switch {
	case refusal != nil:
		h.fail(w, r, h.cfg.Home, refusal)
	case asked.Port == "0":
		h.writeProgram(w, programContent{wanted: asked, Path: h.at(r).path + h.cfg.Mount, Session: s, Code: code})
	default:
		h.redirect(w, r, "http://127.0.0.1:"+asked.Port+"/?"+
			url.Values{"code": {code}, "state": {asked.State}}.Encode())
	}
}

// issued is the session of a program.
type issued struct {
	Credential string    `json:"credential"`
	Expires    time.Time `json:"expire_time"`
}

// programToken exchanges a code for a session.
func (h *Handler) programToken(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Code     string `json:"code"`
		Verifier string `json:"verifier"`
	}
	refusal := h.attempt(r)
	if refusal == nil {
		refusal = h.safe(r)
	}
	if refusal == nil && readJSON(w, r, &asked) != nil {
		refusal = refusedProgram
	}
	var text string
	var s session.Session
	if refusal == nil {
		s, refusal = h.redeem(r.Context(), asked.Code, asked.Verifier)
	}
	if refusal == nil {
		text, refusal = h.cfg.Sessions.Issue(r.Context(), session.Program, &s)
	}
	if refusal != nil {
		h.problem(w, r, refusal)
		return
	}
	h.record(&s, "session.program_signed_in")
	writeJSON(w, r, issued{operator.SessionPrefix + text, s.Expires})
}

// redeem returns the session of a code.
func (h *Handler) redeem(ctx context.Context, code, verifier string) (session.Session, *call.Refusal) {
	var g grant
	if h.cfg.Sessions.Unseal(ctx, "program", code, &g) != nil {
		return g.Session, refusedProgram
	}
	sum := sha256.Sum256([]byte(verifier))
	if !session.SameSecret(base64.RawURLEncoding.EncodeToString(sum[:]), g.Challenge) || time.Now().After(g.Until) ||
		!h.cfg.Sessions.Valid(&g.Session) || !h.used.first("program "+g.ID) {
		return g.Session, refusedProgram
	}
	_, refusal := h.cfg.People.Check(ctx, &g.Session)
	return g.Session, refusal
}

// Program returns the session of a program's credential.
func (h *Handler) Program(ctx context.Context, credential string) (*session.Session, *call.Refusal) {
	return h.cfg.Sessions.Open(ctx, session.Program, strings.TrimPrefix(credential, operator.SessionPrefix))
}

// programEnd ends the session of a program.
func (h *Handler) programEnd(w http.ResponseWriter, r *http.Request) {
	credential, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s, refusal := h.Program(r.Context(), credential)
	if refusal == nil {
		refusal = h.end(r.Context(), s)
	}
	if refusal != nil {
		h.problem(w, r, refusal)
		return
	}
	writeJSON(w, r, struct{}{})
}

var refusedProgram = &call.Refusal{Kind: call.InvalidArgument, Reason: "SIGN_IN_FAILED",
	Message: "the program's request is invalid, has expired, or was used; start again with capgate login"}

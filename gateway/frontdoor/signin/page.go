package signin

import (
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/accept"
	"github.com/capgate/capgate/internal/session"
)

var (
	//go:embed page.html
	pageText string
	//go:embed program.html
	programText string
	//go:embed style.css
	styleText []byte

	programTemplate = template.Must(template.New("program").Parse(programText))

	pageTemplate = template.Must(template.New("signin").Parse(pageText))
)

// securityPolicy only lets a page load its own style sheet and send its own form.
const securityPolicy = "default-src 'none'; style-src 'self'; img-src 'none'; base-uri 'none'; form-action 'self'; " +
	"frame-ancestors 'none'"

// content is the content of a page.
type content struct {
	Path    string // prefix of the routes
	Next    string
	Inbox   bool
	Keys    string
	Problem *call.Refusal // why sign-in failed; nil means none
	Out     bool          // the person has signed out
	Ended   bool          // the session ended while a page was open
	Session *session.Session
	Buttons []button
}

// button links to an issuer.
type button struct{ Title, Href string }

// page shows the ways to sign in.
func (h *Handler) page(w http.ResponseWriter, r *http.Request) {
	if to := h.moved(r, r.URL.RequestURI()); to != "" {
		h.redirect(w, r, to)
		return
	}
	next := h.next(r.URL.Query().Get("next"))
	c := h.content(r, next)
	c.Out = r.URL.Query().Get("out") == "1" && c.Session == nil
	c.Ended = r.URL.Query().Get("ended") == "1" && c.Session == nil
	c.Problem = h.safe(r)
	h.write(w, r, http.StatusOK, c)
}

func (h *Handler) content(r *http.Request, next string) content {
	path := h.at(r).path + h.cfg.Mount
	c := content{Path: path, Next: next, Inbox: h.cfg.Kind == session.Inbox, Keys: h.cfg.Keys}
	c.Session, _ = h.Session(get(r))
	for _, i := range h.cfg.Issuers() {
		c.Buttons = append(c.Buttons, button{i.Issuer,
			path + "/signin/oidc/" + url.PathEscape(i.Issuer) + "?" + url.Values{"next": {next}}.Encode()})
	}
	return c
}

// get returns a GET request with the cookies of another request.
func get(r *http.Request) *http.Request {
	one := *r
	one.Method = http.MethodGet
	return &one
}

// fail shows why sign-in failed, and the ways to sign in: as a page for browsers, otherwise as a problem.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, next string, refusal *call.Refusal) {
	if !wantsPage(r) {
		h.problem(w, r, refusal)
		return
	}
	p := problem.Of(status.Err(refusal))
	if refusal.RetryAfter > 0 {
		w.Header().Set("Retry-After", retryAfter(refusal))
	}
	c := h.content(r, next)
	c.Problem = refusal
	h.write(w, r, p.Status, c)
}

func (h *Handler) problem(w http.ResponseWriter, r *http.Request, refusal *call.Refusal) {
	w.Header().Set("Cache-Control", "no-store")
	problem.Write(w, r, problem.Of(status.Err(refusal)))
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, status int, c content) {
	var b strings.Builder
	if err := pageTemplate.Execute(&b, c); err != nil { // every content can be rendered
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(b.String())) // an error means that the client has disconnected
	}
}

// secure sets the headers of all pages. The referrer policy lets a form send its origin, which is checked.
func secure(head http.Header) {
	head.Set("Content-Security-Policy", securityPolicy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
}

// style serves the style sheet of all pages.
func (h *Handler) style(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(styleText) // an error means that the client has disconnected
}

// redirect redirects the browser. The next request is a GET without a body.
func (h *Handler) redirect(w http.ResponseWriter, _ *http.Request, to string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// ToSignIn redirects a browser that requests a page to the sign-in, and then back.
func (h *Handler) ToSignIn(w http.ResponseWriter, r *http.Request) {
	next := h.next(r.URL.RequestURI())
	h.redirect(w, r, h.at(r).path+h.cfg.Mount+"/signin?"+url.Values{"next": {next}}.Encode())
}

// wantsPage reports whether a request is for a page, or from a form.
func wantsPage(r *http.Request) bool { return accept.Named(r.Header, "text/html") }

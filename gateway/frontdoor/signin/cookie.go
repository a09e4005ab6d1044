package signin

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// outside describes how a browser reaches the port.
type outside struct {
	base   string // scheme://host, and the path of the configured URL
	path   string // of the configured URL; empty means none
	secure bool   // over TLS, which a proxy may terminate
}

// at returns how the browser of a request reaches the port. The host of the request must have been checked.
func (h *Handler) at(r *http.Request) outside {
	if configured := h.cfg.URL(); configured != "" {
		u, err := url.Parse(configured)
		if err == nil && sameHost(u, r) {
			path := strings.TrimRight(u.Path, "/")
			return outside{base: u.Scheme + "://" + u.Host + path, path: path, secure: u.Scheme == "https"}
		}
	}
	if r.TLS != nil {
		return outside{base: "https://" + r.Host, secure: true}
	}
	return outside{base: "http://" + r.Host}
}

// sameHost reports whether a request is for the host and port of a URL.
func sameHost(u *url.URL, r *http.Request) bool {
	host := strings.ToLower(r.Host)
	if _, _, err := net.SplitHostPort(host); err != nil && u.Port() != "" {
		host += map[bool]string{true: ":443", false: ":80"}[u.Scheme == "https"]
	}
	own := strings.ToLower(u.Host)
	return host == own || u.Port() == "" && host == own+map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
}

// moved returns the configured URL of a path, for a browser that used another name; empty means it did not.
func (h *Handler) moved(r *http.Request, path string) string {
	u, err := url.Parse(h.cfg.URL())
	if err != nil || u.Host == "" || sameHost(u, r) || isLoopback(r.Host) {
		return ""
	}
	return strings.TrimRight(u.String(), "/") + path
}

// safe returns a refusal if a session would be sent over a network in cleartext, unless that is configured as safe.
func (h *Handler) safe(r *http.Request) *call.Refusal {
	at := h.at(r)
	if at.secure || isLoopback(r.Host) {
		return nil
	}
	if u, err := url.Parse(h.cfg.URL()); err == nil && u.Scheme == "http" && sameHost(u, r) {
		return nil
	}
	return refusedCleartext
}

var refusedCleartext = &call.Refusal{Kind: call.FailedPrecondition, Reason: "SIGN_IN_CLEARTEXT",
	Message: "a session would be sent in cleartext over the network: reach the gateway by https or as localhost, or " +
		"set public_url or admin_url to the URL of the proxy that ends TLS"}

// isLoopback reports whether browsers treat a host as this machine.
func isLoopback(authority string) bool {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = strings.Trim(authority, "[]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return weburl.IsLoopback(host) || strings.HasSuffix(host, ".localhost")
}

// sessionCookie returns the name of the cookie with the session. Ports of one host share cookies, so each has its own
// name.
func (h *Handler) sessionCookie(r *http.Request) string { return h.cookieName(r, "") }

// loginCookie returns the name of the cookie of a started sign-in.
func (h *Handler) loginCookie(r *http.Request) string { return h.cookieName(r, "-login") }

func (h *Handler) cookieName(r *http.Request, of string) string {
	name := "capgate" + strings.ReplaceAll(h.cfg.Mount, "/", "-") + of
	if h.at(r).secure {
		return "__Host-" + name // no other host, and no page in cleartext, can set it (RFC 6265bis §4.1.3.2)
	}
	return name
}

// setCookie sets a cookie, or deletes it if the value is empty.
func (h *Handler) setCookie(w http.ResponseWriter, r *http.Request, name, value string, end time.Time) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: h.at(r).secure,
		SameSite: http.SameSiteLaxMode, MaxAge: max(int(time.Until(end).Seconds()), 1)}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// cookie returns the value of a cookie; empty means there is none, or several.
func cookie(r *http.Request, name string) string {
	all := r.CookiesNamed(name)
	if len(all) != 1 {
		return ""
	}
	return all[0].Value
}

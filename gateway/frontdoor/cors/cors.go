// Package cors permits calls from browsers by pages of configured origins (WHATWG Fetch §3.2), and rejects
// those of any other. If callers are authenticated by client certificates, or not at all, a foreign page could
// otherwise make calls in the name of its visitor.
//
// The middleware precedes the front doors, and decides by the header Origin alone. An origin is not an
// identity.
package cors

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Config lists the permitted origins. The zero value permits none.
type Config struct {
	// Origins of pages: https://app.example.com, https://*.example.com for all below it, or "*", which excludes
	// credentials.
	Origins []string `yaml:"origins" kind:"origin" required:""`
	// Request headers that pages may send, besides those that the gateway uses.
	Headers []string `yaml:"headers" kind:"header"`
	// Response headers that pages may read, besides those that the gateway sets.
	Expose []string `yaml:"expose" kind:"header"`
	// true: requests of pages may have client certificates.
	Credentials bool `yaml:"credentials" default:"false"`
}

// Check checks that all origins together have no credentials.
func (c *Config) Check(at strictyaml.At) {
	if c.Credentials && slices.Contains(c.Origins, "*") {
		at.Fail("origins", `"*" is not possible with credentials: name the origins`)
	}
}

// maxAge is the time for which browsers cache the response to a preflight.
const maxAge = 10 * time.Minute

// methods are the methods that pages may use. Each path checks its own.
const methods = "GET, HEAD, POST, PUT, PATCH, DELETE"

type policy struct {
	Config
	allow, expose string
	own           *http.CrossOriginProtection
	next          http.Handler
}

// Handler returns the middleware.
func Handler(cfg Config, next http.Handler) http.Handler {
	return &policy{Config: cfg, allow: join(header.Sent, cfg.Headers), expose: join(header.Read, cfg.Expose),
		own: http.NewCrossOriginProtection(), next: next}
}

func join(of header.Use, more []string) string {
	return strings.Join(append(header.Names(of), more...), ", ")
}

// ServeHTTP implements http.Handler.
func (p *policy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	origin := header.First(r.Header, "Origin")
	on := len(p.Origins) > 0
	allowed := on && p.allows(origin)
	head := w.Header()
	if on {
		head.Add("Vary", "Origin")
	}
	if allowed {
		head.Set("Access-Control-Allow-Origin", p.answer(origin))
		if p.Credentials {
			head.Set("Access-Control-Allow-Credentials", "true")
		}
	}
	switch {
	case on && origin != "" && r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "":
		p.preflight(w, allowed) // a preflight has no credentials, and makes no call
	case allowed:
		head.Set("Access-Control-Expose-Headers", p.expose)
		p.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), allowedKey{}, true)))
	case p.own.Check(r) != nil:
		problem.CrossSite(w, r)
	default:
		p.next.ServeHTTP(w, r)
	}
}

func (p *policy) preflight(w http.ResponseWriter, allowed bool) {
	head := w.Header()
	head.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	if allowed {
		head.Set("Access-Control-Allow-Methods", methods)
		head.Set("Access-Control-Allow-Headers", p.allow)
		head.Set("Access-Control-Max-Age", strconv.Itoa(int(maxAge.Seconds())))
	}
	w.WriteHeader(http.StatusNoContent)
}

// answer returns the value of Access-Control-Allow-Origin for an origin.
func (p *policy) answer(origin string) string {
	if !p.Credentials && slices.Contains(p.Origins, "*") {
		return "*"
	}
	return origin
}

// allows reports whether pages of the origin may call.
func (p *policy) allows(origin string) bool {
	scheme, host, ok := strings.Cut(origin, "://")
	if !ok || host == "" {
		return false // also null, the origin of sandboxed pages
	}
	return slices.ContainsFunc(p.Origins, func(pattern string) bool {
		if pattern == "*" {
			return !p.Credentials
		}
		s, h, _ := strings.Cut(pattern, "://")
		below, wild := strings.CutPrefix(h, "*")
		if !wild {
			return origin == pattern
		}
		name, found := strings.CutSuffix(host, below)
		return s == scheme && found && name != "" && !strings.ContainsAny(name, ":/@[]")
	})
}

type allowedKey struct{}

// Allowed reports whether a request comes from a page of a permitted origin.
func Allowed(r *http.Request) bool { return r.Context().Value(allowedKey{}) != nil }

// CrossSite reports whether a request comes from a page of another site whose origin is not permitted. The middleware
// admits such requests if they use GET, which the standard library considers safe.
func CrossSite(r *http.Request) bool {
	asked := r.Clone(r.Context())
	asked.Method = http.MethodPost
	return !Allowed(r) && new(http.CrossOriginProtection).Check(asked) != nil
}

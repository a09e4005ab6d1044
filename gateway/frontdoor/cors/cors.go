// Package cors lets pages of other sites call the gateway from browsers, as far as the configuration names their
// origins (WHATWG Fetch §3.2), and refuses what a browser sends for those of any other: where callers are known
// by their client certificates, or by nothing, such a page would make calls by being looked at.
//
// It is a door before the front doors, decides by the header Origin alone, and is no identity.
package cors

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
)

// Config says which pages may call. The zero value: none.
type Config struct {
	Origins     []string      // https://app.example.com, https://*.example.com for all below it, or *
	Headers     []string      // that they may send, besides those of Headers
	Expose      []string      // that they may read, besides those of Exposed
	MaxAge      time.Duration // how long browsers remember that they may; 0: as they like
	Credentials bool          // with client certificates; not with *
}

// methods are those that pages may use. Which of them a path has it says itself.
const methods = "GET, HEAD, POST, PUT, PATCH, DELETE"

// headers are those of requests that mean something here.
const headers = "Accept, Authorization, Content-Disposition, Content-Encoding, Content-Type, Digest, " +
	"Grpc-Timeout, Idempotency-Key, If-None-Match, " +
	"Last-Event-ID, Prefer, Repr-Digest, Request-Timeout, Traceparent, Tracestate, X-Agent-Id, X-Api-Key, " +
	"X-Approval-Id, X-Approval-Wait, " +
	"X-Capability-Id, X-Request-Id, X-Session-Id, X-Thread-Id, X-User-Id"

// exposed are those of answers.
const exposed = "Allow, Content-Disposition, Digest, ETag, Idempotency-Replayed, Location, Preference-Applied, " +
	"RateLimit, RateLimit-Limit, " +
	"RateLimit-Policy, RateLimit-Remaining, RateLimit-Reset, Repr-Digest, Retry-After, WWW-Authenticate, " +
	"X-Capgate-Outcome, X-Request-Id"

type policy struct {
	Config
	allow, expose string
	own           *http.CrossOriginProtection
	next          http.Handler
}

// Handler returns what stands before next.
func Handler(cfg Config, next http.Handler) http.Handler {
	return &policy{Config: cfg, allow: join(headers, cfg.Headers), expose: join(exposed, cfg.Expose),
		own: http.NewCrossOriginProtection(), next: next}
}

func join(list string, more []string) string {
	return strings.Join(append([]string{list}, more...), ", ")
}

// ServeHTTP implements http.Handler.
func (p *policy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
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
		p.preflight(w, allowed) // which has no credentials, and asks for nothing
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
		if p.MaxAge > 0 {
			head.Set("Access-Control-Max-Age", strconv.Itoa(int(p.MaxAge.Seconds())))
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// answer is the origin as the answer names it.
func (p *policy) answer(origin string) string {
	if !p.Credentials && slices.Contains(p.Origins, "*") {
		return "*"
	}
	return origin
}

// allows is whether a page of that origin may call.
func (p *policy) allows(origin string) bool {
	scheme, host, ok := strings.Cut(origin, "://")
	if !ok || host == "" {
		return false // null, too: pages in sandboxes are of nobody
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

// Allowed is whether a request comes from a page that may call.
func Allowed(r *http.Request) bool { return r.Context().Value(allowedKey{}) != nil }

// Package health reports to load balancers whether a replica accepts requests, at the public port and without a
// credential.
package health

import (
	"io"
	"net/http"
)

// Path is the path for load balancers.
const Path = "/healthz"

// New returns middleware that serves GET and HEAD of Path before anything is charged or queued: 200, or 503 once
// clients should use another replica. leaving may be called from any goroutine, and must not block.
func New(leaving func() bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != Path || r.Method != http.MethodGet && r.Method != http.MethodHead {
				next.ServeHTTP(w, r)
				return
			}
			status, text := http.StatusOK, "ok\n"
			if leaving() {
				status, text = http.StatusServiceUnavailable, "leaving\n"
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text) // the load balancer has disconnected
		})
	}
}

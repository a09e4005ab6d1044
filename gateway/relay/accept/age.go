package accept

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/capgate/capgate/internal/lib/response"
)

// agePart is the divisor of Age.Max by which ages vary, so that clients that connected together do not return
// together.
const agePart = 10

// Spread returns Max for one connection; 0 means no limit.
func (a *Age) Spread() time.Duration {
	if a.Max <= 0 {
		return 0
	}
	part := a.Max / agePart
	return a.Max - part + rand.N(2*part+1) //nolint:gosec // nothing secret
}

// withLastResponse ends HTTP/1.1 connections with a response when the client must connect elsewhere.
func (s *Server) withLastResponse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, _ := req.Context().Value(connKey{}).(*http1Conn)
		last := &response.Writer{ResponseWriter: w, Begin: func() { // as late as possible
			if s.leaving(c) {
				w.Header().Set("Connection", "close")
			}
		}}
		next.ServeHTTP(last, req)
		last.Start()
	})
}

// leaving reports whether the client of an HTTP/1.1 response must move elsewhere.
func (s *Server) leaving(c *http1Conn) bool {
	age := &s.cfg.Age
	return c != nil && !c.until.IsZero() && !time.Now().Before(c.until) ||
		age.Leaving != nil && age.Leaving() || s.isStopping()
}

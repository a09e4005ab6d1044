package accept

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// agePart is the part of Age.Max by which ages differ: clients that connected together do not return together.
const agePart = 10

// Spread returns Max for one connection; 0: no limit.
func (a *Age) Spread() time.Duration {
	if a.Max <= 0 {
		return 0
	}
	part := a.Max / agePart
	return a.Max - part + rand.N(2*part+1) //nolint:gosec // nothing secret
}

// withLastResponse ends connections over HTTP/1.1 with a response when the client is to connect elsewhere.
func (s *Server) withLastResponse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, _ := req.Context().Value(connKey{}).(*http1Conn)
		last := &lastWriter{ResponseWriter: w, server: s, conn: c}
		next.ServeHTTP(last, req)
		last.decide()
	})
}

// leaving reports whether the client of a response over HTTP/1.1 is to leave.
func (s *Server) leaving(c *http1Conn) bool {
	age := &s.cfg.Age
	return c != nil && !c.until.IsZero() && !time.Now().Before(c.until) ||
		age.Leaving != nil && age.Leaving() || s.isStopping()
}

// lastWriter decides as late as possible whether a response is the last one of its connection: as its headers are
// written.
type lastWriter struct {
	http.ResponseWriter
	server  *Server
	conn    *http1Conn
	decided bool
}

func (w *lastWriter) decide() {
	if w.decided {
		return
	}
	if w.decided = true; w.server.leaving(w.conn) {
		w.Header().Set("Connection", "close")
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *lastWriter) WriteHeader(code int) {
	if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
		w.decide()
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (w *lastWriter) Write(p []byte) (int, error) {
	w.decide()
	return w.ResponseWriter.Write(p) //nolint:wrapcheck // the response's own
}

// Flush implements http.Flusher.
func (w *lastWriter) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *lastWriter) FlushError() error {
	w.decide()
	return http.NewResponseController(w.ResponseWriter).Flush() //nolint:wrapcheck // the response's own
}

// Unwrap is for http.ResponseController.
func (w *lastWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

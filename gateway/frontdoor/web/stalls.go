package web

import (
	"net/http"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
)

// Stall limits the stalls of clients other than authenticated callers, for which the front doors do it.
func (s *Server) Stall(next http.Handler) http.Handler {
	return Stall(s.cfg.Stall, func(r *http.Request) bool {
		v := Of(r)
		return v.share != unauthenticated && !v.door.headers.Cookies
	}, next)
}

// Stall returns a handler that ends requests whose clients send nothing of a body, or read nothing of a response, for
// the duration stall. exempt reports requests whose handlers do that themselves.
func Stall(stall time.Duration, exempt func(*http.Request) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if exempt(r) {
			if r.ProtoMajor == 1 { // the previous request on the connection may have left a deadline
				control := http.NewResponseController(w)
				_ = control.SetWriteDeadline(time.Time{})
				if r.ContentLength != 0 { // a handler may read nothing; the server reads the body before it responds
					_ = control.SetReadDeadline(time.Now().Add(stall))
				}
			}
			next.ServeHTTP(w, r)
			return
		}
		out := bodybudget.WriteTimeout(w, stall)
		out.End()
		bodied := r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
		if bodied {
			r.Body = bodybudget.StallTimeout(w, r.Body, stall)
			// The deadline also applies if the handler reads nothing.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(stall))
		}
		next.ServeHTTP(out, r)
		// The server reads the unread rest of a body, and then writes the end of the response.
		control, by := http.NewResponseController(w), time.Now().Add(stall)
		if bodied {
			_ = control.SetReadDeadline(by)
			by = by.Add(stall)
		}
		_ = control.SetWriteDeadline(by)
	})
}

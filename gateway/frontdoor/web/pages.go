package web

import (
	"net/http"
	"slices"

	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
)

// Trace adds the id of a request's new trace to its problems.
func (s *Server) Trace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := Of(r).Details.Drawn; id != nil && !id.IsZero() {
			r = problem.WithTrace(r, id.Text())
		}
		next.ServeHTTP(w, r)
	})
}

// Pages returns middleware that lets pages of other sites call as configured: not at a door with cookies, and not at
// listeners whose callers belong to a tenant without a credential, because every page would act as that tenant.
func (s *Server) Pages(cfg cors.Config) func(http.Handler) http.Handler {
	for _, d := range s.doors {
		cfg.Headers = slices.Concat(d.headers.Request, cfg.Headers)
		cfg.Expose = slices.Concat(d.headers.Response, cfg.Expose)
	}
	return func(next http.Handler) http.Handler {
		some, none := cors.Handler(cfg, next), cors.Handler(cors.Config{}, next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch v := Of(r); {
			case v.door.headers.Cookies:
				next.ServeHTTP(w, r)
			case v.Client.At.Anonymous():
				none.ServeHTTP(w, r)
			default:
				some.ServeHTTP(w, r)
			}
		})
	}
}

package web

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
)

// requestWork is the work of a request besides its body and its call, in bytes of a body.
const requestWork = 4 << 10

// Recover returns a middleware that answers requests whose handler has panicked.
func Recover(where string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return recovery.Handler(where, next, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header()[problem.RequestID] = r.Header[problem.RequestID] // the panic has cleared it
			problem.Write(w, r, problem.Of(status.Answer(filter.Panicked).Err()))
		}))
	}
}

// full returns the handler of requests beyond a limit of overload.
func full(limit string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := Of(r)
		problem.Write(w, r, problem.Of(v.shed(filter.TooMany(v.Identity), limit, 0)))
	})
}

// Stall bounds how long clients may stall, except callers: the front doors do that for them.
func (s *Server) Stall(next http.Handler) http.Handler {
	return Stall(s.cfg.Stall, func(r *http.Request) bool {
		v := Of(r)
		return v.share != unauthenticated && !v.door.headers.Cookies
	}, next)
}

// Memory charges the memory of requests over HTTP/1.1, besides their bodies. The relay charges others.
func (s *Server) Memory(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := relay.PeerOf(r.Context())
		if p == nil {
			next.ServeHTTP(w, r)
			return
		}
		v, account := Of(r), s.cfg.Unauthenticated.Of(client.Of(p).Prefix)
		if v.share != unauthenticated {
			account = s.cfg.Calls.Of(cmp.Or(v.share, tenant.Default))
		}
		cost := relay.RequestCost(r)
		if !account.Reserve(cost) {
			full(filter.ByPools).ServeHTTP(w, r)
			return
		}
		defer account.Release(cost)
		next.ServeHTTP(w, r)
	})
}

// Host rejects requests for a host name that is not the port's, unless callers need a credential there. Browsers send
// cookies by themselves, so requests to a door with cookies are always checked.
func (s *Server) Host(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := Of(r)
		if (v.door.headers.Cookies || !s.cfg.Callers.NeedsAt(v.Client.At)) && !s.cfg.Hosts.allows(r.Host) {
			problem.Write(w, r, problem.Of(v.Refuse(hostRefusal(r.Host, "hosts"))))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Queue has requests wait in the fair queue.
func (s *Server) Queue(next http.Handler) http.Handler {
	return s.cfg.Queue.Handler(func(r *http.Request) (tenant, from string) { return Of(r).Account() },
		full(filter.ByQueue), next)
}

// Bodies bounds the memory of bodies, and charges what requests hold of responses to their tenants.
func (s *Server) Bodies(next http.Handler) http.Handler {
	next = s.cfg.Bodies.Handler(func(r *http.Request) bodybudget.Owner { return Of(r) }, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := Of(r)
		v.results.begin(v, s.cfg.Results)
		defer v.results.end()
		v.Charge(requestWork)
		next.ServeHTTP(w, request.With(r, request.ResultsKey(), &v.results))
	})
}

// Trace adds the id of the trace that was drawn for a request to its problems.
func (s *Server) Trace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := Of(r).Client.Drawn; id != nil && !id.IsZero() {
			r = problem.WithTrace(r, id.Text())
		}
		next.ServeHTTP(w, r)
	})
}

// Pages returns a middleware that lets pages of other sites call as cfg says: not by a door with cookies, and not at
// listeners whose callers are a tenant's without a credential, as every page would be that tenant.
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

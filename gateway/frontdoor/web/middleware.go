package web

import (
	"cmp"
	"net/http"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/tenant"
)

// Recover returns middleware that responds to requests whose handler has panicked.
func Recover(where string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return recovery.Handler(where, next, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header()[problem.RequestID] = r.Header[problem.RequestID] // the panic has cleared it
			problem.Write(w, r, problem.Of(status.Answer(filter.Panicked).Err()))
		}))
	}
}

// full returns the handler for requests above a limit of overload.
func full(limit overload.Limit) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := Of(r)
		problem.Write(w, r, problem.Of(v.shed(filter.TooMany(v.Identity), limit, 0)))
	})
}

// Memory charges the memory of HTTP/1.1 requests, without their bodies. The relay charges others.
func (s *Server) Memory(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := Of(r)
		if v.peer == nil {
			next.ServeHTTP(w, r)
			return
		}
		account := s.cfg.Unauthenticated.Of(client.Of(v.peer).Prefix)
		if v.share != unauthenticated {
			account = s.cfg.Calls.Of(cmp.Or(v.share, tenant.Default))
		}
		cost := relay.RequestCost(r)
		if !account.Reserve(cost) {
			full(overload.Pools).ServeHTTP(w, r)
			return
		}
		defer account.Release(cost)
		next.ServeHTTP(w, r)
		v.await()
	})
}

// Host rejects requests for a host name that the port does not accept, unless callers need a credential there.
// Browsers send cookies automatically, so requests to a door with cookies are always checked.
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

// Queue makes requests wait in the fair queue.
func (s *Server) Queue(next http.Handler) http.Handler {
	return s.cfg.Queue.Handler(func(r *http.Request) fairqueue.Owner { return Of(r) }, full(overload.Queue), next)
}

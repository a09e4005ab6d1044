package gateway

import (
	"cmp"
	"net/http"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/tenant"
)

const (
	waitingRequests = 1024      // Capacity.MaxWaiting
	heldBodies      = 256 << 20 // Capacity.MaxBodies
	requestWork     = 4 << 10   // work of a request besides its body and its call, in bytes of a body
)

// middleware returns the front doors behind authentication, the checks of hosts, the fair queue, and the budget of
// bodies.
func (h *handler) middleware(t *fairqueue.Queue, bodies *bodybudget.Budget, doors http.Handler) http.Handler {
	full := func(limit string) http.Handler {
		return problem.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v := webRequestOf(r)
			problem.Write(w, r, problem.Of(v.shed(filter.TooMany(v.Identity), limit, 0)))
		}))
	}
	doors = h.holdResults(bodies.Handler(func(r *http.Request) bodybudget.Owner { return webRequestOf(r) }, doors))
	account := func(r *http.Request) (tenant, from string) { return webRequestOf(r).Account() }
	handle := h.chargeRequests(full(filter.ByPools), h.checkHost(t.Handler(account, full(filter.ByQueue), doors)))
	return h.authenticateRequests(withStalls(h.cfg.Clients.Stall, isCaller, handle))
}

// isCaller reports whether a request is a caller's. The front doors bound how long its client may stall.
func isCaller(r *http.Request) bool {
	v := webRequestOf(r)
	return v.share != strangers && !v.isInbox()
}

// holdResults charges what requests hold of responses to their tenants, until they end.
func (h *handler) holdResults(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := webRequestOf(r)
		v.results.begin(v, h.shares.results)
		defer v.results.end()
		v.Charge(requestWork)
		next.ServeHTTP(w, frontdoor.With(r, frontdoor.ResultsKey(), &v.results))
	})
}

// chargeRequests charges the memory of requests over HTTP/1.1, besides their bodies. The relay charges others.
func (h *handler) chargeRequests(full, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := relay.PeerOf(r.Context())
		if p == nil {
			next.ServeHTTP(w, r)
			return
		}
		v, account := webRequestOf(r), h.shares.strangers.Of(p.Value.(*clientConn).prefix)
		if v.share != strangers {
			account = h.shares.calls.Of(cmp.Or(v.share, tenant.Default))
		}
		cost := relay.RequestCost(r)
		if !account.Reserve(cost) {
			full.ServeHTTP(w, r)
			return
		}
		defer account.Release(cost)
		next.ServeHTTP(w, r)
	})
}

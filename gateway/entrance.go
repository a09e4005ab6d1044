package gateway

import (
	"cmp"
	"net/http"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/tenant"
)

const (
	waitingRequests = 1024      // Config.MaxWaiting
	heldBodies      = 256 << 20 // Config.MaxBodies
)

// entrance has requests of the front doors pass the fair queue, and hold what they send in a pool.
func (h *handler) entrance(t *fairqueue.Queue, pool *bodybudget.Budget, doors http.Handler) http.Handler {
	full := problem.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := visitOf(r)
		problem.Write(w, r, problem.Of(v.refuse(filter.TooMany(v.Identity), 0), HTTPStatus))
	}))
	doors = pool.Handler(func(r *http.Request) bodybudget.Owner { return visitOf(r) }, doors)
	return h.visiting(h.charging(full,
		h.known(t.Handler(func(r *http.Request) (tenant, from string) { return visitOf(r).Account() }, full, doors))))
}

// charging has requests over HTTP/1.1 hold what they take besides their bodies; the relay does so for others.
func (h *handler) charging(full, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := relay.PeerOf(r.Context())
		if p == nil {
			next.ServeHTTP(w, r)
			return
		}
		v, account := visitOf(r), h.shares.strangers.Of(p.Value.(*visitor).prefix)
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

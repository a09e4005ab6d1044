package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc"

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
		problem.Write(w, r, problem.Of(v.refuse(filter.TooMany(v.who), 0), HTTPStatus))
	}))
	doors = pool.Handler(func(r *http.Request) bodybudget.Owner { return visitOf(r) }, doors)
	return h.visiting(h.charging(full, h.known(t.Handler(func(r *http.Request) (tenant, from string) { return visitOf(r).Account() }, full, doors))))
}

// charging has requests by HTTP/1.1 hold what they take besides their bodies; the relay does so for others.
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

// passUnary has calls that are to be translated pass the fair queue. What else is asked of the gateway itself does not:
// by JSON it has passed.
func (g *Gateway) passUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := g.passes(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// passStream does so with streams, when their first message is there.
func (g *Gateway) passStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &passing{ServerStream: s, passes: g.passes})
}

type passing struct {
	grpc.ServerStream
	passes func(context.Context) error // nil: it has
}

func (p *passing) RecvMsg(m any) error {
	err := p.ServerStream.RecvMsg(m)
	if pass := p.passes; err == nil && pass != nil {
		p.passes = nil
		err = pass(p.Context())
	}
	return err
}

// passes waits for the turn of the call that ctx is of, if that is one that crosses.
func (g *Gateway) passes(ctx context.Context) error {
	x, crosses := g.crossings.lookIn(ctx)
	if !crosses {
		return nil
	}
	err := g.fairQueue.Wait(ctx, x.call.Tenant, "")
	if errors.Is(err, fairqueue.ErrFull) {
		return g.crossings.refuse(ctx, filter.TooMany(x.caller))
	}
	return err
}

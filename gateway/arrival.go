package gateway

import (
	"context"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/relay"
)

// arrival is what a front door hands to the call that a request becomes: the Value of its relay.Request. The call takes
// it over and does not find it out again, and changes nothing in it: it is part of the visit.
type arrival struct {
	authenticate.Arrival
	client          filter.Client
	idempotencyKeys []string
}

// arrive adds to the request of a call what the front door knows of the request that ctx is of.
func (h *handler) arrive(ctx context.Context, q *relay.Request) {
	fairqueue.CallStarted(ctx)
	v, ok := ctx.Value(visitKey{}).(*visit)
	if !ok {
		return
	}
	q.Value = &v.arrival
	if c := frontdoor.CallOf(ctx); len(c.IdempotencyKeys) > 0 || c.Signature != "" {
		own := v.arrival
		own.Signature, own.idempotencyKeys = c.Signature, c.IdempotencyKeys
		q.Value = &own
	}
}

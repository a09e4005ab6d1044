package gateway

import (
	"context"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/relay"
)

// inherited is what a call inherits from the request that a front door makes it for: the Value of its relay.Request.
// The call must not change it: it is a part of the webRequest.
type inherited struct {
	authenticate.Inherited
	client          filter.Client
	idempotencyKeys []string
}

// inherit gives a call what it inherits from the request of ctx.
func (h *handler) inherit(ctx context.Context, q *relay.Request) {
	fairqueue.CallStarted(ctx)
	v, ok := ctx.Value(webRequestKey{}).(*webRequest)
	if !ok {
		return
	}
	v.recorded.Store(true)
	q.Hold = &v.results
	q.Value = &v.inherited
	if c := frontdoor.CallOf(ctx); len(c.IdempotencyKeys) > 0 || c.Signature != "" {
		own := v.inherited
		own.Signature, own.idempotencyKeys = c.Signature, c.IdempotencyKeys
		q.Value = &own
	}
}

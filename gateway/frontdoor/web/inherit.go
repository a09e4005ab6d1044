package web

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Inherited is what a call inherits from the request that a front door makes it for: the Value of its relay.Request.
// The call must not change it.
type Inherited struct {
	authenticate.Inherited
	Client          filter.Client
	IdempotencyKeys []string
	Asked           func(call.Approval) (wait time.Duration)
}

// Inherit gives a call what it inherits from the request of ctx.
func Inherit(ctx context.Context, q *relay.Request) {
	fairqueue.CallStarted(ctx)
	v, ok := ctx.Value(requestKey{}).(*Request)
	if !ok {
		return
	}
	v.recorded.Store(true)
	q.Hold = &v.results
	q.Value = &v.Inherited
	if c := request.CallOf(ctx); len(c.IdempotencyKeys) > 0 || c.Signature != "" || c.Asked != nil {
		own := v.Inherited
		own.Signature, own.IdempotencyKeys, own.Asked = c.Signature, c.IdempotencyKeys, c.Asked
		q.Value = &own
	}
}

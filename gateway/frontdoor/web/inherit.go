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

// Inherited is the data that a call inherits from the HTTP request of its front door. It is the Value of its
// relay.Request, and must not be changed by the call.
type Inherited struct {
	authenticate.Inherited
	Client          filter.Client
	IdempotencyKeys []string
	Feature         bool // see request.Call
	Asked           func(call.Approval) (wait time.Duration)
	Changed         bool
}

// Inherit adds the data of the request of ctx to a call.
func Inherit(ctx context.Context, q *relay.Request) {
	fairqueue.CallStarted(ctx)
	v, ok := ctx.Value(requestKey{}).(*Request)
	if !ok {
		return
	}
	v.recorded.Store(true)
	q.Hold = &v.results
	q.Value = &v.Inherited
	c := request.CallOf(ctx)
	if len(c.IdempotencyKeys) > 0 || c.Signature != "" || c.Feature || c.Asked != nil || c.Changed {
		own := v.Inherited
		own.Signature, own.IdempotencyKeys, own.Asked = c.Signature, c.IdempotencyKeys, c.Asked
		own.Feature, own.Changed = c.Feature, c.Changed
		q.Value = &own
	}
}

package web

import (
	"context"

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
	Asking          call.Asking
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
	if len(c.IdempotencyKeys) > 0 || c.Signature != "" || c.Feature || c.Asked != nil || c.Toolset != "" {
		own := v.Inherited
		own.Signature, own.IdempotencyKeys = c.Signature, c.IdempotencyKeys
		own.Feature, own.Asking = c.Feature, c.Asking
		q.Value = &own
	}
}

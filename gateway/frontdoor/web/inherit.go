package web

import (
	"context"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/relay"
)

// Inherited is the data that a call inherits from the HTTP request of its front door. It is the Value of its
// relay.Request, and must not be changed by the call.
type Inherited struct {
	*Caller
	Call *request.Call // of the front door; nil means none
}

// Caller is the client of a request, with its principal.
type Caller struct {
	authenticate.Inherited
	Client  filter.Client
	Details filter.ClientDetails
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
	q.Value = &v.inherited
	if c := request.CallOf(ctx); c != nil {
		own := &Inherited{&v.Caller, c}
		if c.Signature != "" {
			signed := v.Caller
			signed.Signature, own.Caller = c.Signature, &signed
		}
		q.Value = own
	}
}

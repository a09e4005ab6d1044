// Package request has the data that front doors attach to the calls of their requests, besides metadata. Clients
// cannot set them by headers.
package request

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Call is a front door's data about the calls of a request.
type Call struct {
	// IdempotencyKeys are the values of the request's Idempotency-Key header; there may be one at most.
	IdempotencyKeys []string
	// Signature is the signature of a signed URL, in place of a credential; empty means none.
	Signature string
	// Asked is called if the call needs an approval, once and beside the relay. It returns how long the call waits for
	// the answer, and may block until the call ends. nil means the metadata of the call says how long it waits.
	Asked func(call.Approval) (wait time.Duration)
}

type callKey struct{}

// WithCall returns a context that attaches c to its calls.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the data that is attached to the calls of ctx.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// Package request holds the data that front doors attach to the calls of their requests, besides metadata. Clients
// cannot set it by headers.
package request

import (
	"context"

	"github.com/capgate/capgate/internal/call"
)

// Call is a front door's data for the calls of a request.
type Call struct {
	// IdempotencyKeys are the values of the request's Idempotency-Key header. At most one is allowed.
	IdempotencyKeys []string
	// Signature is the signature of a signed URL, instead of a credential; empty means none.
	Signature string
	// Feature permits a call of a feature of an MCP server, which the front door has checked, see manifest.IsFeature.
	Feature bool
	call.Asking
}

type callKey struct{}

// WithCall returns a context that attaches c to its calls.
func WithCall(ctx context.Context, c Call) context.Context {
	return &withCall{ctx, c}
}

// CallOf returns the data attached to the calls of ctx; nil means none.
func CallOf(ctx context.Context) *Call {
	if of, ok := ctx.Value(callKey{}).(*withCall); ok {
		return &of.call
	}
	return nil
}

// withCall is a context with a Call.
type withCall struct {
	context.Context //nolint:containedctx // a context
	call            Call
}

// Outer implements relay.ValueContext.
func (c *withCall) Outer() context.Context { return c.Context }

// Value implements context.Context.
func (c *withCall) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

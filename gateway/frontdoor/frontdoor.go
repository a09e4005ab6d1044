// Package frontdoor has what the front doors tell the calls that their requests become, beside metadata. No client can
// say these things in a header.
package frontdoor

import "context"

// Call is what a front door knows of the calls of a request.
type Call struct {
	// IdempotencyKeys are the values of the request's Idempotency-Key header; there may be one at most.
	IdempotencyKeys []string
	// Signature is that of a signed URL. It takes the place of every credential; "": there is none.
	Signature string
}

type callKey struct{}

// WithCall returns a context whose calls are told c.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf is what the calls of ctx are told.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

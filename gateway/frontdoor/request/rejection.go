package request

import (
	"context"
	"net/http"

	"google.golang.org/grpc/codes"
)

// Rejections records requests that a front door rejects.
type Rejections interface {
	// Rejected records a rejected request, unless it is already recorded or its call has started: a call records
	// itself.
	Rejected(code codes.Code, reason string)
	// Named adds the capability and the tool that a request names to the record of its rejection; empty: none.
	Named(capability, tool string)
}

type rejectionsKey struct{}

// WithRejections returns a request whose rejection is recorded by by.
func WithRejections(r *http.Request, by Rejections) *http.Request {
	return With(r, rejectionsKey{}, by)
}

// Rejected records that the request of ctx is rejected. reason must be in docs/errors.md. Without Rejections in ctx,
// nothing is recorded.
func Rejected(ctx context.Context, code codes.Code, reason string) {
	if by, ok := ctx.Value(rejectionsKey{}).(Rejections); ok {
		by.Rejected(code, reason)
	}
}

// Named adds what the request of ctx names to the record of its rejection, before Rejected. The names are the
// client's, and may not exist. Without Rejections in ctx, nothing is recorded.
func Named(ctx context.Context, capability, tool string) {
	if by, ok := ctx.Value(rejectionsKey{}).(Rejections); ok {
		by.Named(capability, tool)
	}
}

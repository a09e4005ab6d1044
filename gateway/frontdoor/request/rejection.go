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

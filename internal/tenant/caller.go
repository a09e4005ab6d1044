package tenant

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callerKey is the key of a context's caller.
type callerKey struct{}

// NewContext returns a context of a call to one of the gateway's own services, with its caller.
func NewContext(ctx context.Context, caller Identity) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// FromContext returns the caller of one of the gateway's own services. The error is a status.
func FromContext(ctx context.Context) (Identity, error) {
	if caller, ok := ctx.Value(callerKey{}).(Identity); ok && caller.Tenant != "" {
		return caller, nil
	}
	return Identity{}, status.Error(codes.Internal, "the caller is unknown")
}

package admin

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
)

// StatusOf returns the error of a service's method. The function toStatus is the gateway's table of gRPC codes for
// refusals. An error without a refusal, such as a status or the end of a context, stays as it is.
func StatusOf(err error, toStatus func(*call.Refusal) *status.Status) error {
	var refusal *call.Refusal
	if errors.As(err, &refusal) {
		return toStatus(refusal).Err()
	}
	return err
}

// statuses are interceptors that turn the refusals that services return into statuses.
func statuses(toStatus func(*call.Refusal) *status.Status) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
			next grpc.UnaryHandler) (any, error) {
			resp, err := next(ctx, req)
			return resp, StatusOf(err, toStatus)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
			next grpc.StreamHandler) error {
			return StatusOf(next(srv, stream), toStatus)
		}),
	}
}

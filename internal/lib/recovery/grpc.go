package recovery

import (
	"context"

	"google.golang.org/grpc"
)

// Options make a grpc.Server answer INTERNAL after a panic of a handler. They have to precede other
// options that chain interceptors.
func Options(where string) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
			next grpc.UnaryHandler) (resp any, err error) {
			err = Do(where, func() (err error) {
				resp, err = next(ctx, req)
				return err
			})
			return resp, err
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo,
			next grpc.StreamHandler) error {
			return Do(where, func() error { return next(srv, s) })
		}),
	}
}

package status

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
)

// Err returns the error of a method for grpc-go: a refusal as its status, and any other error as it is.
func Err(err error) error {
	var refusal *call.Refusal
	if errors.As(err, &refusal) {
		return Answer(refusal).Err()
	}
	return err
}

// Registrar returns a registrar for services whose methods return refusals. Fault returns the refusal for an error that
// is neither a refusal nor a status; if it is nil, such an error stays as it is.
func Registrar(g grpc.ServiceRegistrar, fault func(error) *call.Refusal) grpc.ServiceRegistrar {
	return registrar{g, fault}
}

type registrar struct {
	grpc.ServiceRegistrar
	fault func(error) *call.Refusal
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	of := *desc
	of.Methods, of.Streams = slices.Clone(desc.Methods), slices.Clone(desc.Streams)
	for i := range of.Methods {
		handle := desc.Methods[i].Handler
		of.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error,
			around grpc.UnaryServerInterceptor) (any, error) {
			resp, err := handle(srv, ctx, decode, around)
			return resp, ErrOf(err, r.fault)
		}
	}
	for i := range of.Streams {
		handle := desc.Streams[i].Handler
		of.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			return ErrOf(handle(srv, stream), r.fault)
		}
	}
	r.ServiceRegistrar.RegisterService(&of, impl)
}

// ErrOf is Err for the methods of a service with a fault, as of Registrar.
func ErrOf(err error, fault func(error) *call.Refusal) error {
	var refusal *call.Refusal
	if _, is := status.FromError(err); fault != nil && !is && !errors.As(err, &refusal) {
		if refusal = fault(err); refusal != nil {
			err = refusal
		}
	}
	return Err(err)
}

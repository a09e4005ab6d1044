package status

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Err returns the error of a method for grpc-go: a refusal as its status, any other error unchanged.
func Err(err error) error {
	var refusal *call.Refusal
	if errors.As(err, &refusal) {
		return Error(refusal, call.Answered)
	}
	return err
}

// Error returns the error of a method that refuses its call. On a local stream, the relay receives all that Relayed
// has, such as grpc-retry-pushback-ms.
func Error(r *call.Refusal, p call.Progress) error { return &refused{r, p} }

// refused is a refusal as an error.
type refused struct {
	refusal  *call.Refusal
	progress call.Progress
}

// Error implements error.
func (e *refused) Error() string { return e.GRPCStatus().String() }

// GRPCStatus implements the interface that status.FromError uses.
func (e *refused) GRPCStatus() *status.Status { return Of(e.refusal, e.progress) }

// Relayed returns the status for the relay.
func (e *refused) Relayed() relay.Status { return Relayed(e.refusal, e.progress) }

// Registrar returns a registrar for services whose methods return refusals. fault returns the refusal for an error
// that is neither a refusal nor a status; if fault is nil, such an error is unchanged.
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
			resp, err := handle(srv, ctx, decoded(decode, begin(ctx)), around)
			return resp, ErrOf(err, r.fault)
		}
	}
	for i := range of.Streams {
		handle := desc.Streams[i].Handler
		of.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			return ErrOf(handle(srv, decodedStream{stream, begin(stream.Context())}), r.fault)
		}
	}
	r.ServiceRegistrar.RegisterService(&of, impl)
}

// ErrOf is Err for the methods of a service with fault, as in Registrar.
func ErrOf(err error, fault func(error) *call.Refusal) error {
	var refusal *call.Refusal
	if _, is := status.FromError(err); fault != nil && !is && !errors.As(err, &refusal) {
		if refusal = fault(err); refusal != nil {
			err = refusal
		}
	}
	return Err(err)
}

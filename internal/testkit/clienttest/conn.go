// Package clienttest makes clients of gRPC and HTTP whose waits are bounded, so that a test fails soon when an answer
// does not come. A deadline would go to the server, as a caller's own; a bound here cancels the call instead.
//
// A bubble of testing/synctest needs no bound, since its fake time would cut a quiet stream: use grpc.NewClient there.
package clienttest

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Patience bounds one wait of a call. It is longer than that of a test that waits for one event after another.
const Patience = 2 * check.Patience

// NewConn is grpc.NewClient with a bound of Patience for each unary call, and for each operation of a stream.
func NewConn(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(target, append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(unary),
		grpc.WithChainStreamInterceptor(newStream)}, opts...)...)
}

func unary(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return (&bound{method, cancel}).within("the answer", func() error {
		return invoke(ctx, method, req, resp, conn, opts...)
	})
}

// bound cancels a call that keeps a test waiting.
type bound struct {
	method string
	cancel context.CancelFunc
}

// within runs one operation. If the operation is too slow, the call is canceled, and the error says so.
func (b *bound) within(what string, operation func() error) error {
	timer := time.AfterFunc(Patience, b.cancel)
	err := operation()
	if !timer.Stop() {
		return status.Errorf(codes.Canceled, "the test waited %v for %s of %s: %v", Patience, what, b.method, err)
	}
	return err
}

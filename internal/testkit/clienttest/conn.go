// Package clienttest makes clients of gRPC and HTTP whose waits are bounded, so that a test fails soon when an answer
// does not come. A deadline would go to the server, as a caller's own; a bound here cancels the call instead.
//
// A bubble of testing/synctest needs no bound, since its fake time would cut a quiet stream: use grpc.NewClient there.
package clienttest

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Patience bounds one wait of a call. It is longer than check.Patience, which bounds the wait for one event.
const Patience = 2 * check.Patience

// NewConn is grpc.NewClient with a bound of Patience for each unary call and for each operation of a stream. After the
// first timeout, later operations fail at once, so that a test with many calls fails soon.
func NewConn(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	c := &conn{}
	return grpc.NewClient(target, append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unary),
		grpc.WithChainStreamInterceptor(c.newStream)}, opts...)...)
}

// conn is the shared state of the calls of a connection.
type conn struct{ silent atomic.Bool }

func (c *conn) unary(ctx context.Context, method string, req, resp any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return (&bound{c, method, cancel}).within("the answer", func() error {
		return invoke(ctx, method, req, resp, cc, opts...)
	})
}

// bound cancels a call that takes too long.
type bound struct {
	*conn
	method string
	cancel context.CancelFunc
}

// within runs one operation. If it takes too long, the call is canceled, and the error describes the operation.
func (b *bound) within(what string, operation func() error) error {
	if b.silent.Load() {
		return status.Errorf(codes.Canceled, "%s of %s is not awaited: an earlier wait lasted %v", what, b.method,
			Patience)
	}
	timer := time.AfterFunc(Patience, func() {
		b.silent.Store(true)
		b.cancel()
	})
	err := operation()
	if !timer.Stop() {
		return status.Errorf(codes.Canceled, "the test waited %v for %s of %s: %v", Patience, what, b.method, err)
	}
	return err
}

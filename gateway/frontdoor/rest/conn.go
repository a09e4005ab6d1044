package rest

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
)

// markingConn is the connection to the gateway's relay. It marks requests that have become calls, because only these
// have a trace in problem documents.
type markingConn struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (c markingConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	markCalled(ctx, method)
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c markingConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	markCalled(ctx, method)
	return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

func markCalled(ctx context.Context, method string) {
	if !strings.HasPrefix(method, "/capgate.v1.") {
		problem.Called(ctx)
	}
}

// strippingConn is the connection to the gateway's relay for grpc-gateway's generated clients. It drops metadata that
// they add automatically.
type strippingConn struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (c strippingConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	out, _ := metadata.FromOutgoingContext(ctx)
	return c.ClientConnInterface.Invoke(withMetadata(ctx, out), method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c strippingConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	out, _ := metadata.FromOutgoingContext(ctx)
	return c.ClientConnInterface.NewStream(withMetadata(ctx, out), desc, method, opts...)
}

// outgoing returns a request's context with the metadata of its headers.
func outgoing(r *http.Request) context.Context {
	return metadata.NewOutgoingContext(withKeys(r.Context(), r.Header.Values(idempotencyKey)), metadataOf(r.Header))
}

// withMetadata forwards the metadata that grpc-gateway derived from the request's headers, without its own additions.
func withMetadata(ctx context.Context, made metadata.MD) context.Context {
	out := metadata.MD{}
	for i := range forwarded {
		name := forwarded[i].Metadata
		if v := made.Get(name); len(v) > 0 {
			out[name] = v
		}
	}
	return metadata.NewOutgoingContext(withKeys(ctx, made.Get(keyedMetadata)), out)
}

// withKeys attaches idempotency keys to the calls. As metadata they would be the caller's own.
func withKeys(ctx context.Context, keys []string) context.Context {
	if len(keys) == 0 {
		return ctx
	}
	return request.WithCall(ctx, request.Call{IdempotencyKeys: keys})
}

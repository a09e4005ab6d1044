package dialect

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Outgoing returns the context for a call that continues the call of ctx, with its metadata, deadline and
// cancellation. The options contain its authority, which may be the only name of the capability.
func Outgoing(ctx context.Context) (context.Context, []grpc.CallOption) {
	in, ok := metadata.FromIncomingContext(ctx)
	if !ok {
		return ctx, nil
	}
	var opts []grpc.CallOption
	if a := in.Get(":authority"); len(a) == 1 && a[0] != "" {
		opts = append(opts, grpc.CallAuthority(a[0]))
	}
	return metadata.NewOutgoingContext(ctx, Custom(in)), opts
}

// Custom returns the metadata of the application. It removes pseudo-headers, connection headers and the names that gRPC
// reserves.
func Custom(md metadata.MD) metadata.MD {
	out := make(metadata.MD, len(md))
	for name, values := range md {
		if !ofHop(name) {
			out[name] = values
		}
	}
	return out
}

func ofHop(name string) bool {
	switch name {
	case "content-type", "user-agent", "te", "connection", "keep-alive", "proxy-connection",
		"transfer-encoding", "upgrade", "host", "content-length":
		return true
	case "grpc-trace-bin", "grpc-tags-bin": // belongs to applications, in spite of the name
		return false
	}
	return strings.HasPrefix(name, ":") || strings.HasPrefix(name, "grpc-")
}

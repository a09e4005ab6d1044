package gateway

import (
	"context"

	"google.golang.org/grpc/metadata"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Invoke calls a tool of a capability for the gateway's own purposes, such as to ask which
// tools there are. It takes the way of every call, is limited, tried again and recorded like
// one, but no policy is asked, and its session gets no place that would be kept for it. An
// error is a status of gRPC.
func (g *Gateway) Invoke(ctx context.Context, capability string, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs(capabilityHeader, capability, ticketHeader, g.crossings.ours))
	return docpb.NewCapabilityClient(g.inside).Invoke(ctx, req)
}

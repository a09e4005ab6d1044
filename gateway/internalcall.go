package gateway

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Invoke calls a tool of a capability for the gateway's own purposes, such as discovery. The call passes the list
// "internal": it is retried and recorded like any other, but not subject to policies, and its session is not pinned. An
// error is a gRPC status.
func (g *Gateway) Invoke(ctx context.Context, capability string, req *docpb.InvokeRequest) (*docpb.InvokeResponse,
	error) {
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs(filter.CapabilityHeader, capability))
	return docpb.NewCapabilityClient(g.internalConn).Invoke(ctx, req)
}

// internalCall marks a call that the gateway itself makes: it is the Value of its relay.Request.
type internalCall struct {
	backend string // address that it has to go to; "": any
}

// internalCallKey is the key of a context's internalCall.
type internalCallKey struct{}

// newInternalConn returns the connection for the gateway's own calls. The internalCall of a context has the backend of
// its calls. The caller sets the relay.
func newInternalConn() *localgrpc.Conn {
	return &localgrpc.Conn{MaxMessage: maxMessage, Caller: func(ctx context.Context, q *relay.Request) {
		own, _ := ctx.Value(internalCallKey{}).(*internalCall)
		if own == nil {
			own = &internalCall{}
		}
		q.Value = own
	}}
}

// AskForTools calls a discovery tool. Its error has the code and the reason of a failure, and never the capability's own
// text.
func (g *Gateway) AskForTools(ctx context.Context, q catalog.DiscoveryCall) ([]byte, error) {
	resp, err := g.Invoke(ctx, q.Capability, &docpb.InvokeRequest{
		CapabilityId: q.Capability, ToolName: q.Tool, ArgsJson: []byte("{}"), SessionId: q.Session, ThreadId: q.Thread,
	})
	if err != nil {
		text := fmt.Sprintf("the call of %s ended with %s", q.Tool, grpcstatus.Code(err))
		if info := status.InfoOf(err); info != nil {
			text += ", " + info.GetReason()
		}
		return nil, errors.New(text)
	}
	if resp.GetError() != "" {
		return nil, fmt.Errorf("%s answers with an error", q.Tool)
	}
	return resp.GetResultJson(), nil
}

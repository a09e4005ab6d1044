package gateway

import (
	"context"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Invoke calls a tool of a capability for the gateway's own purposes, such as to ask which
// tools there are. It takes the way of every call, is limited, tried again and recorded like
// one, but no policy is asked, and its session gets no place that would be kept for it. An
// error is a status of gRPC.
func (g *Gateway) Invoke(ctx context.Context, capability string, req *docpb.InvokeRequest) (*docpb.InvokeResponse,
	error) {
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs(filter.CapabilityHeader, capability))
	return docpb.NewCapabilityClient(g.own).Invoke(ctx, req)
}

// ownCall marks a call that the gateway itself makes: it is the Value of its relay.Request.
type ownCall struct {
	backend string // address that it has to go to; "": any
}

// ownCallKey is the key of a context's ownCall.
type ownCallKey struct{}

// ownCalls makes the gateway's own calls: those of a context with an ownCall, and others to any backend. It lacks the
// relay.
func ownCalls() *localgrpc.Conn {
	return &localgrpc.Conn{MaxMessage: maxMessage, Caller: func(ctx context.Context, q *relay.Request) {
		own, _ := ctx.Value(ownCallKey{}).(*ownCall)
		if own == nil {
			own = &ownCall{}
		}
		q.Value = own
	}}
}

// AskForTools is a catalog.Ask. Its error has the code and the reason of a failure: what the
// capability says of it may be anything.
func (g *Gateway) AskForTools(ctx context.Context, q catalog.DiscoveryCall) ([]byte, error) {
	resp, err := g.Invoke(ctx, q.Capability, &docpb.InvokeRequest{
		CapabilityId: q.Capability, ToolName: q.Tool, ArgsJson: []byte("{}"), SessionId: q.Session, ThreadId: q.Thread,
	})
	if err != nil {
		st := status.Convert(err)
		for _, d := range st.Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
				return nil, fmt.Errorf("the call of %s ended with %s, %s", q.Tool, st.Code(), info.GetReason())
			}
		}
		return nil, fmt.Errorf("the call of %s ended with %s", q.Tool, st.Code())
	}
	if resp.GetError() != "" {
		return nil, fmt.Errorf("%s answers with an error", q.Tool)
	}
	return resp.GetResultJson(), nil
}

package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/grpcerror"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Invoke calls a tool of a capability for the gateway itself, such as for discovery. The call passes the list
// "internal": it is retried and recorded like any other, but policies do not apply, and its session is not pinned. The
// error is a gRPC status.
func (g *Gateway) Invoke(ctx context.Context, capability string, req *docpb.InvokeRequest) (*docpb.InvokeResponse,
	error) {
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs(filter.CapabilityHeader, capability))
	return docpb.NewCapabilityClient(g.internalConn).Invoke(ctx, req)
}

// internalCall marks a call that the gateway itself makes. It is the Value of its relay.Request.
type internalCall struct {
	backend string                // required address; empty means any
	unsent  atomic.Pointer[error] // why the last attempt did not start; nil means it started
}

// internalCallKey is the context key of an internalCall.
type internalCallKey struct{}

// newInternalConn returns the connection for the gateway's own calls. The internalCall of the context selects the
// backend. The caller must set the relay.
func newInternalConn() *localgrpc.Conn {
	return &localgrpc.Conn{MaxMessage: maxMessage, Caller: func(ctx context.Context, q *relay.Request) {
		own, _ := ctx.Value(internalCallKey{}).(*internalCall)
		if own == nil {
			own = &internalCall{}
		}
		q.Value = own
	}}
}

// maxCause is the maximum length of a discovery's error, in bytes.
const maxCause = 400

// maxLeftOut is the maximum length of the description of skipped tools, in bytes.
const maxLeftOut = 800

// AskForTools implements catalog.CallTool. Its error has the code, the reason and the cause of a failure.
func (g *Gateway) AskForTools(ctx context.Context, q catalog.DiscoveryCall) (catalog.Answer, error) {
	own := &internalCall{}
	resp, err := g.Invoke(context.WithValue(ctx, internalCallKey{}, own), q.Capability, &docpb.InvokeRequest{
		CapabilityId: q.Capability, ToolName: q.Tool, ArgsJson: []byte("{}"), SessionId: q.Session, ThreadId: q.Thread,
	})
	if err != nil {
		return catalog.Answer{}, own.failure(q.Tool, err)
	}
	if said := resp.GetError(); said != "" {
		return catalog.Answer{}, fmt.Errorf("%s returned an error: %s", q.Tool, upstream.Said(said, maxCause))
	}
	leftOut := string(localgrpc.Rest(resp.ProtoReflect().GetUnknown()))
	return catalog.Answer{Tools: resp.GetResultJson(), LeftOut: upstream.Said(leftOut, maxLeftOut)}, nil
}

// features lists the features of an MCP server of a fleet.
func (g *Gateway) features(ctx context.Context, capability string) ([]byte, error) {
	resp, err := g.Invoke(ctx, capability, &docpb.InvokeRequest{CapabilityId: capability,
		ToolName: manifest.ListFeatures, ArgsJson: []byte("{}")})
	return resp.GetResultJson(), err
}

// failure returns the error of a failed call, for operators.
func (o *internalCall) failure(tool string, err error) error {
	text := fmt.Sprintf("the call of %s ended with %s", tool, grpcstatus.Code(err))
	if info := status.InfoOf(err); info != nil {
		text += ", " + info.GetReason()
	}
	cause := grpcstatus.Convert(err).Message()
	if unsent := o.unsent.Load(); unsent != nil && status.ProgressOf(err) == call.NotSent {
		cause += ": " + grpcerror.Unreached(*unsent)
	}
	if cause = upstream.Said(cause, maxCause); cause != "" {
		text += ": " + cause
	}
	return errors.New(text)
}

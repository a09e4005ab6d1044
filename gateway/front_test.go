package gateway_test

import (
	"context"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// front is a capability behind a gateway, and a client of it.
type front struct {
	gateway    *gatewaytest.Gateway
	capability *gatewaytest.Capability
	backend    *gatewaytest.Backend
	client     gatewaytest.Client
	conn       *grpc.ClientConn
	limit      func(tenant.Limits) // changes acme's settings; nil means no change
}

// startFront starts one backend as the capability "caps", a gateway in front of it, and a client.
func startFront(t *testing.T, client, backend call.Dialect, change ...func(*gatewaytest.Options)) *front {
	t.Helper()
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, backend)
	o := gatewaytest.Options{
		Domains: []string{"caps.example.com"},
		Fleets:  []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}},
	}
	for _, c := range change {
		c(&o)
	}
	f.gateway = gatewaytest.Start(t, o)
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, client)
	return f
}

// to names the capability in metadata.
func to(ctx context.Context, capability string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-capability-id", capability)
}

func request(tool, args string) *docpb.InvokeRequest {
	return &docpb.InvokeRequest{CapabilityId: "caps", ToolName: tool, ArgsJson: []byte(args)}
}

// errorInfo returns the google.rpc.ErrorInfo of an error. Without one it returns nil, whose reason is empty.
func errorInfo(err error) *errdetails.ErrorInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

package playground

import (
	"context"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	invalid = "PLAYGROUND_INVALID"
	maxName = 256 // bytes of a user or an agent
	// maxArguments is the maximum size of a call's arguments, in bytes of JSON.
	maxArguments = 1 << 20
)

// Tools holds the known capabilities and tools, in memory.
type Tools interface {
	Capabilities() []string // sorted; must not be changed
	Class(capability string) call.Class
	Tools(capability string) (tools []catalog.Tool, known bool)
}

// Decider decides on calls. It may wait until ctx ends.
type Decider interface {
	Fetch(ctx context.Context, c *call.Call) (policy.Decision, *call.Refusal)
}

// Config configures the service. All fields but Settings are required.
type Config struct {
	Tools   Tools
	Decider Decider
	Tenants *tenant.Roster // nil means only tenant.Default exists
	// Settings returns a tenant; nil means unknown. It is required with Tenants.
	Settings func(ctx context.Context, id string) (*tenant.Settings, *call.Refusal)
	Serve    func(w http.ResponseWriter, r *http.Request, identity tenant.Identity, address string)
	Stream   Stream
}

// Stream makes a call for the identity. md is the metadata of the call.
type Stream func(ctx context.Context, identity tenant.Identity, address string, md metadata.MD,
	req *docpb.InvokeRequest) (grpc.ServerStreamingClient[docpb.InvokeChunk], error)

// New returns the service.
func New(cfg Config) admin.Service {
	s := &server{Config: cfg}
	service := admin.NewService[capgatepb.PlaygroundServer](s, capgatepb.RegisterPlaygroundServer,
		capgatepb.RegisterPlaygroundHandlerServer)
	service.Serve = map[string]runtime.HandlerFunc{capgatepb.Playground_InvokeTool_FullMethodName: s.serveInvoke}
	service.Large = map[string]int{capgatepb.Playground_InvokeTool_FullMethodName: maxArguments}
	return service
}

// server implements capgate.v1.Playground.
type server struct {
	capgatepb.UnimplementedPlaygroundServer
	Config
}

// caller is the part of a request that names the caller.
type caller interface {
	GetTenant() string
	GetUser() string
	GetAgent() string
}

// identity returns the caller named by a request. The error is a *call.Refusal.
func (s *server) identity(ctx context.Context, r caller) (identity tenant.Identity, err error) {
	for name, v := range map[string]string{"tenant": r.GetTenant(), "user": r.GetUser(), "agent": r.GetAgent()} {
		if len(v) > maxName {
			return identity, call.InvalidField(invalid, name, "it must have at most 256 bytes")
		}
	}
	named, err := operator.Tenant(ctx, r.GetTenant()) // an operator of one tenant calls as that tenant
	if err != nil {
		return identity, err
	}
	identity = tenant.Identity{User: r.GetUser(), Agent: r.GetAgent(), Scopes: tenant.Invoke | tenant.Read,
		Key: tenant.OperatorKey + operator.NameOf(ctx, ""), Operator: true}
	if identity.Tenant, err = s.Tenants.Named(ctx, named); err != nil || s.Tenants == nil {
		return identity, err
	}
	if err = s.Tenants.Check(ctx, identity.Tenant); err != nil {
		return identity, err
	}
	settings, refusal := s.Settings(ctx, identity.Tenant)
	if refusal == nil && settings == nil {
		refusal = &call.Refusal{Kind: call.NotFound, Reason: "TENANT_UNKNOWN", Message: "the tenant does not exist"}
	}
	if refusal != nil {
		return identity, refusal
	}
	identity.Settings = settings
	asserted, refusal := identity.Assert(tenant.Credentials{}, 0) // a disabled tenant may not call
	if refusal != nil {
		return identity, refusal
	}
	return asserted, nil
}

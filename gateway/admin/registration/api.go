package registration

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Registry stores registrations. Its errors are *call.Refusal.
type Registry interface {
	Register(ctx context.Context, g registry.Registration) (registry.Registration, error)
	Withdraw(ctx context.Context, key registry.Key, lease string) error
}

// New returns the service. The function toStatus is the gateway's table of gRPC codes for refusals. The log has new
// registrations and withdrawals; nil: none.
func New(r Registry, toStatus func(*call.Refusal) *status.Status, log *audit.Log) admin.Service {
	s := &server{registry: r, status: toStatus, audit: log}
	return admin.Service{
		GRPC: func(g *grpc.Server) { capgatepb.RegisterRegistryServer(g, s) },
		JSON: func(ctx context.Context, mux *admin.JSONMux) error {
			return capgatepb.RegisterRegistryHandlerServer(ctx, mux.ServeMux, s)
		},
		Patterns: []string{"POST /v1/registrations:withdraw"},
		Large: []admin.Large{{
			Method:  capgatepb.Registry_RegisterBackend_FullMethodName,
			Pattern: "POST /v1/registrations",
			Bytes:   manifest.MaxBytes,
		}},
	}
}

package registration

import (
	"context"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Registry stores registrations. Its errors are *call.Refusal.
type Registry interface {
	Register(ctx context.Context, g registry.Registration) (registry.Registration, error)
	Withdraw(ctx context.Context, key registry.Key, lease string) error
}

// New returns the service. log records registrations and withdrawals; it may be nil.
func New(r Registry, log *audit.Log) admin.Service {
	service := admin.NewService[capgatepb.RegistryServer](&server{registry: r, audit: log},
		capgatepb.RegisterRegistryServer, capgatepb.RegisterRegistryHandlerServer)
	service.Large = map[string]int{capgatepb.Registry_RegisterBackend_FullMethodName: manifest.MaxBytes}
	return service
}

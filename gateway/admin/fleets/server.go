package fleets

import (
	"context"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/router"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxBody bounds the body of a drain, in bytes.
const maxBody = 4 << 10

// Drains stores the drained backends for all replicas.
type Drains interface {
	Set(ctx context.Context, keys []drains.Key, drained bool, by string) (shared bool, err error)
	Remaining(drains.Key) drains.Remaining
}

// Config has the dependencies of the service. Only Source, ProbedBy and Audit may be nil.
type Config struct {
	Router  *router.Router
	Drains  Drains
	Gateway func() *capgatepb.RespondingReplica
	Source  func(capability, addr string) string // source of a backend: config, dns or registration
	// ProbedBy returns the replica that probes a backend. The router does not learn of a change of that alone.
	// Default: the replica that the router knows.
	ProbedBy func(capability, addr string) string
	Audit    *audit.Log // of drains; nil means none
}

// server is capgate.v1.Fleets.
type server struct {
	capgatepb.UnimplementedFleetsServer
	Config
}

// New returns the service.
func New(cfg Config) admin.Service {
	if cfg.Source == nil {
		cfg.Source = func(string, string) string { return "" }
	}
	service := admin.NewService[capgatepb.FleetsServer](&server{Config: cfg}, capgatepb.RegisterFleetsServer,
		capgatepb.RegisterFleetsHandlerServer)
	service.Unreadable, service.Body = paging.Unreadable, maxBody
	return service
}

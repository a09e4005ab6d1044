package fleets

import (
	"context"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/router"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxBody is the maximum body of a drain request, in bytes.
const maxBody = 4 << 10

// Drains stores drained backends for all replicas.
type Drains interface {
	Set(ctx context.Context, keys []drains.Key, drained bool, by string) (shared bool, err error)
	Remaining(drains.Key) drains.Remaining
}

// Config configures the service. All fields but Logins, Source, ProbedBy and Audit are required.
type Config struct {
	Router  *router.Router
	Drains  Drains
	Logins  *logins.Logins // nil means that no fleet has a login
	Gateway func() *capgatepb.RespondingReplica
	Source  func(capability, addr string) string // source of a backend: config, dns, kubernetes or registration
	// ProbedBy returns the replica that probes a backend. By default it is the one that the router knows, which may be
	// outdated.
	ProbedBy func(capability, addr string) string
	Audit    *audit.Log // optional
}

// server implements capgate.v1.Fleets.
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
	service.Large = map[string]int{capgatepb.Fleets_SetFleetLogin_FullMethodName: maxLogin}
	return service
}

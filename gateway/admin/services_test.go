package admin_test

import (
	"context"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestMethodsWithoutRole: a method without the option capgate.v1.access fails the start.
func TestMethodsWithoutRole(t *testing.T) {
	t.Parallel()
	services, err := admin.NewServices(admin.Service{
		GRPC: func(g grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(g, health.NewServer()) },
		JSON: func(context.Context, *runtime.ServeMux) error { return nil },
	})
	check.Must(t, err)
	mux := guard.NewMux()
	services.Mount(mux)
	_, err = guard.Insecure().Handler(mux)
	if err == nil || !strings.Contains(err.Error(), "no least role for /grpc.health.v1.Health/Check,") {
		t.Error(err)
	}
}

package gateway_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestCutOffReplicaIsNotReady: both ports report a replica that reaches no backend as not ready, and as ready
// once it reaches one again.
func TestCutOffReplicaIsNotReady(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	g := gatewaytest.Start(t, gatewaytest.Options{CutOff: cut.Load})
	health := healthpb.NewHealthClient(g.Conn(t))
	for _, off := range []bool{false, true, false} {
		cut.Store(off)
		want, serving := http.StatusOK, healthpb.HealthCheckResponse_SERVING
		if off {
			want, serving = http.StatusServiceUnavailable, healthpb.HealthCheckResponse_NOT_SERVING
		}
		if status, body := g.Admin(t, "/readyz"); status != want || strings.Contains(body, `"cut_off":true`) != off {
			t.Errorf("cut off %t: %d, %s", off, status, body)
		}
		check.Until(t, "grpc.health.v1 to say the same", func() (bool, string) {
			got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
			return err == nil && got.GetStatus() == serving, got.GetStatus().String()
		})
	}
}

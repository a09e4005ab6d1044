package gateway_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestNoSuchMethod: the error of an unknown method does not repeat the path, which may have a secret.
func TestNoSuchMethod(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
		Backends: []string{capability.Addr}}}})
	conn := g.Conn(t)
	for _, method := range []string{
		"/grpc.health.v1.Health/Check?token=hunter2", "/grpc.health.v1.Health/hunter2",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo?token=hunter2",
	} {
		err := conn.Invoke(t.Context(), method, new(emptypb.Empty), new(emptypb.Empty))
		if status.Code(err) != codes.Unimplemented || errorInfo(err).GetReason() != "METHOD_UNKNOWN" ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", method, err, errorInfo(err))
		}
	}
}

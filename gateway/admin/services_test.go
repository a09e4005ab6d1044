package admin_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestRoutesWithoutRole: a JSON route without a row in the table of roles fails the start.
func TestRoutesWithoutRole(t *testing.T) {
	t.Parallel()
	for route, want := range map[string]string{
		"GET /v1/calls/events":  "",
		"GET /v1/secrets/{id}":  "GET /v1/secrets/{id=*}",
		"POST /v1/calls/events": "POST /v1/calls/events",
	} {
		method, path, _ := strings.Cut(route, " ")
		services, err := admin.NewServices(gateway.GRPCStatus, gateway.HTTPStatus, admin.Service{
			GRPC: func(*grpc.Server) {},
			JSON: func(_ context.Context, mux *admin.JSONMux) error {
				return mux.HandlePath(method, path, func(http.ResponseWriter, *http.Request, map[string]string) {})
			},
		})
		check.Must(t, err)
		mux := guard.NewMux()
		services.Mount(mux)
		_, err = guard.Insecure(gateway.GRPCStatus, gateway.HTTPStatus).Handler(mux)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "no least role for "+want+":") {
			t.Errorf("%s: %v", route, err)
		}
	}
}

package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
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

// calls is a service whose JSON has a list and a stream.
type calls struct {
	capgatepb.UnimplementedCallsServer
}

func (calls) ListCalls(context.Context, *capgatepb.ListCallsRequest) (*capgatepb.ListCallsResponse, error) {
	return &capgatepb.ListCallsResponse{Replica: "r"}, nil
}

// TestHEAD: HEAD is answered like GET, also when that is refused, and begins no stream.
func TestHEAD(t *testing.T) {
	t.Parallel()
	service := admin.NewService[capgatepb.CallsServer](calls{}, capgatepb.RegisterCallsServer,
		capgatepb.RegisterCallsHandlerServer)
	service.Serve = map[string]runtime.HandlerFunc{
		capgatepb.Calls_WatchCalls_FullMethodName: func(w http.ResponseWriter, _ *http.Request, _ map[string]string) {
			w.WriteHeader(http.StatusAccepted)
		}}
	services, err := admin.NewServices(service)
	check.Must(t, err)
	mux := guard.NewMux()
	services.Mount(mux)
	routes, err := guard.Insecure().Handler(mux)
	check.Must(t, err)
	web := httptest.NewServer(routes)
	check.Cleanup(t, web.Close)
	answers := func(method, path string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, http.NoBody)
		check.Must(t, err)
		resp, err := clienttest.HTTP.Do(req)
		check.Must(t, err)
		check.Must(t, resp.Body.Close())
		return fmt.Sprint(resp.StatusCode, resp.Header["Allow"], resp.Header["Content-Type"], resp.ContentLength)
	}
	for path, status := range map[string]string{"/v1/calls": "200 ", "/v1/calls?page_size=x": "400 ",
		"/v1/calls:x": "404 "} {
		if get, head := answers(http.MethodGet, path), answers(http.MethodHead, path); head != get ||
			!strings.HasPrefix(get, status) {
			t.Errorf("%s: GET %s, HEAD %s", path, get, head)
		}
	}
	const stream = "/v1/calls/events"
	if get, head := answers(http.MethodGet, stream), answers(http.MethodHead, stream); !strings.HasPrefix(get,
		"202 ") || !strings.HasPrefix(head, "405 [GET]") {
		t.Errorf("a stream: GET %s, HEAD %s", get, head)
	}
}

// operators is a service that takes a body.
type operators struct {
	capgatepb.UnimplementedOperatorsServer
}

func (operators) RevokeSessions(context.Context,
	*capgatepb.RevokeSessionsRequest) (*capgatepb.RevokeSessionsResponse, error) {
	return new(capgatepb.RevokeSessionsResponse), nil
}

// TestBodies: a body is one JSON value; what follows one is not ignored.
func TestBodies(t *testing.T) {
	t.Parallel()
	services, err := admin.NewServices(admin.NewService[capgatepb.OperatorsServer](operators{},
		capgatepb.RegisterOperatorsServer, capgatepb.RegisterOperatorsHandlerServer))
	check.Must(t, err)
	mux := guard.NewMux()
	services.Mount(mux)
	routes, err := guard.Insecure().Handler(mux)
	check.Must(t, err)
	for body, status := range map[string]int{"": 200, " \n": 200, `{"session":"a"}` + "\n": 200,
		`{"session":"a"}{"name":"b"}`: 400, `{"session":"a"} x`: 400, `{"session":"a"}]`: 400, `{"session":"a"`: 400} {
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/sessions:revoke", strings.NewReader(body)))
		if w.Code != status || status == 400 && !strings.Contains(w.Body.String(), `"reason":"INVALID_BODY"`) {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	}
}

package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestNoSuchMethod: the error of an unknown method does not repeat the path, which may contain a secret.
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

// TestNoSuchService: a service without a fleet is unknown, as at any gRPC server. Services of the gateway's
// protocols need a capability.
func TestNoSuchService(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
		Backends: []string{capability.Addr}}}})
	conn := g.Conn(t)
	for method, want := range map[string]struct {
		code   codes.Code
		reason string
	}{
		"/acme.v1.Orders/List":                            {codes.Unimplemented, "METHOD_UNKNOWN"},
		"/selu.capability.v2.Capability/Invoke":           {codes.Unimplemented, "METHOD_UNKNOWN"},
		"/selu.capability.v1.Capability/Invoke":           {codes.InvalidArgument, "ROUTING_KEY_MISSING"},
		"/selu.capability.v1.Capability/Describe":         {codes.InvalidArgument, "ROUTING_KEY_MISSING"},
		"/selu.capability.v1.Capability/Healthcheck":      {codes.InvalidArgument, "ROUTING_KEY_MISSING"},
		"/openparallax.v1.ClientService/GetStatus":        {codes.InvalidArgument, "ROUTING_KEY_MISSING"},
		"/selu.capability.Capability/UploadInputArtifact": {codes.InvalidArgument, "ROUTING_KEY_MISSING"},
	} {
		err := conn.Invoke(t.Context(), method, new(emptypb.Empty), new(emptypb.Empty))
		if status.Code(err) != want.code || errorInfo(err).GetReason() != want.reason {
			t.Errorf("%s: %v, %v", method, err, errorInfo(err))
		}
	}
}

// TestContentTypeOfMethods: a gRPC path accepts the types of gRPC, gRPC-Web and Connect, and no others.
func TestContentTypeOfMethods(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1").Serve(t, call.Live)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
		Backends: []string{capability.Addr}}}})
	for name, client := range map[string]*http.Client{"HTTP/1.1": g.HTTP1(t), "HTTP/2": g.HTTP2(t)} {
		for typ, want := range map[string]int{
			"": 415, "text/plain": 415, "application/octet-stream": 415, "application/x-protobuf": 415,
			"application/jsonp": 415, "multipart/form-data; boundary=x": 415,
			"application/json": 200, "application/json; charset=utf-8": 200,
			"application/grpc-web+proto": 200, "application/grpc-web-text": 200, "application/proto": 200,
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				"http://"+g.Addr+"/selu.capability.v1.Capability/Healthcheck", strings.NewReader("{}"))
			check.Must(t, err)
			if typ != "" {
				r.Header.Set("Content-Type", typ)
			}
			r.Header.Set("X-Capability-Id", "caps")
			resp, err := client.Do(r)
			check.Must(t, err)
			var problem struct{ Reason string }
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusUnsupportedMediaType {
				err = json.Unmarshal(body, &problem)
			}
			if err != nil || resp.StatusCode != want || (want == 415) != (problem.Reason == "UNSUPPORTED_MEDIA_TYPE") {
				t.Errorf("%s, %q: %s %s, %v", name, typ, resp.Status, body, err)
			}
		}
	}
}

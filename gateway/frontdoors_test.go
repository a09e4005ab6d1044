package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// post posts JSON to the invoke path of a capability.
func post(t *testing.T, client *http.Client, g *gatewaytest.Gateway, capability, body string,
	header ...string) (*http.Response, string) {
	t.Helper()
	return clienttest.Send(t, client, http.MethodPost, g.URL("/v1/capabilities/"+capability+"/invoke"), body, header...)
}

// protocols lists the versions of HTTP on the shared port.
var protocols = []struct {
	name   string
	major  int
	client func(*gatewaytest.Gateway, testing.TB) *http.Client
}{
	{"HTTP/1.1", 1, (*gatewaytest.Gateway).HTTP1},
	{"HTTP/2", 2, (*gatewaytest.Gateway).HTTP2},
}

func TestRESTInvoke(t *testing.T) {
	t.Parallel()
	for _, backend := range []call.Dialect{call.Doc, call.Live} {
		f := startFront(t, call.Doc, backend)
		for _, protocol := range protocols {
			client := protocol.client(f.gateway, t)
			for _, test := range []struct {
				name, capability, body string
				status                 int
				want                   string // the whole body, or a part of a problem
			}{
				{"result", "caps", `{"tool_name":"echo","args":{"n":1E+300,"ö":[]}}`, 200,
					`{"result":{"n":1E+300,"ö":[]}}` + "\n"},
				{"tool error", "caps", `{"tool_name":"fail"}`, 200, `{"error":"the tool failed for {}"}` + "\n"},
				{"base64", "caps", `{"tool_name":"echo","args_json":"e30="}`, 200, `{"result":{}}` + "\n"},
				{"backend's own error", "caps", `{"tool_name":"break"}`, 500, `"code":"DATA_LOSS","reason":"BROKE"`},
				{"unknown capability", "nope", `{"tool_name":"echo"}`, 404, `"reason":"CAPABILITY_UNKNOWN"`},
				{"malformed", "caps", `{"tool_name":`, 400, `"code":"INVALID_ARGUMENT"`},
				{"both forms", "caps", `{"tool_name":"echo","args":{},"args_json":"e30="}`, 400,
					`"code":"INVALID_ARGUMENT"`},
			} {
				resp, body := post(t, client, f.gateway, test.capability, test.body)
				isProblem := resp.Header.Get("Content-Type") == "application/problem+json"
				if resp.ProtoMajor != protocol.major || resp.StatusCode != test.status ||
					!strings.Contains(body, test.want) || isProblem != (test.status >= 400) ||
					!isProblem && body != test.want {
					t.Errorf("%s, %s backend, %s: %s %s %s", protocol.name, backend, test.name, resp.Proto, resp.Status,
						body)
				}
				if isProblem && !json.Valid([]byte(body)) {
					t.Errorf("%s: no JSON: %s", test.name, body)
				}
			}
		}
	}
}

func TestGRPCAndBothHTTPOnOnePort(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Live, call.Doc)
	const each = 20
	done := make(chan error, 3*each)
	clients := []*http.Client{f.gateway.HTTP1(t), f.gateway.HTTP2(t)}
	for range each {
		go func() {
			_, err := f.client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
			done <- err
		}()
		for _, c := range clients {
			go func() {
				resp, err := c.Post(f.gateway.URL("/v1/capabilities/caps/invoke"), "application/json",
					strings.NewReader(`{"tool_name":"echo"}`))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				done <- err
			}()
		}
	}
	for range 3 * each {
		if err := check.Received(t, done, "the end of a call"); err != nil {
			t.Error(err)
		}
	}
	if got := len(f.capability.Seen()); got != 3*each {
		t.Errorf("the backend got %d calls, want %d", got, 3*each)
	}
}

func TestCompressedInvoke(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		args := `{"a":"` + strings.Repeat("x", 10_000) + `"}`
		resp, err := f.client.Invoke(to(t.Context(), "caps"), request(gatewaytest.Echo, args),
			grpc.UseCompressor(gzip.Name))
		if err != nil || string(resp.GetResultJson()) != args {
			t.Errorf("%d bytes, %v", len(resp.GetResultJson()), err)
		}
		if got := f.capability.Seen()[0].Metadata.Get("grpc-accept-encoding"); len(got) == 0 ||
			!strings.Contains(got[0], "gzip") {
			t.Errorf("grpc-accept-encoding %q", got)
		}
		// Only the message names the capability.
		resp, err = f.client.Invoke(t.Context(), request(gatewaytest.Echo, args), grpc.UseCompressor(gzip.Name))
		if err != nil || string(resp.GetResultJson()) != args {
			t.Errorf("without metadata: %d bytes, %v", len(resp.GetResultJson()), err)
		}
		if !filed(client, backend) {
			return
		}
		up, err := f.client.Upload(to(t.Context(), "caps"), gatewaytest.File{Name: "f", Data: []byte(args)},
			grpc.UseCompressor(gzip.Name))
		if kept, _ := f.capability.File(up.ID); err != nil || string(kept.Data) != args {
			t.Errorf("upload: %+v, %v; kept %+v", up, err, kept)
		}
	})
}

func TestGRPCHealth(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	resp, err := healthpb.NewHealthClient(f.conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("got %v, %v", resp, err)
	}
}

// As grpcurl does: list the services and fetch the descriptor of one.
func TestServerReflection(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	stream, err := reflectionpb.NewServerReflectionClient(f.conn).ServerReflectionInfo(t.Context())
	check.Must(t, err)
	ask := func(req *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		check.Must(t, stream.Send(req))
		resp, err := stream.Recv()
		check.Must(t, err)
		return resp
	}
	list := ask(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	var services []string
	for _, s := range list.GetListServicesResponse().GetService() {
		services = append(services, s.GetName())
	}
	for _, want := range []string{"selu.capability.Capability", "selu.capability.v1.Capability"} {
		if !slices.Contains(services, want) {
			t.Errorf("services %v lack %s", services, want)
			continue
		}
		reply := ask(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: want}})
		var file descriptorpb.FileDescriptorProto
		check.Must(t, proto.Unmarshal(reply.GetFileDescriptorResponse().GetFileDescriptorProto()[0], &file))
		if methods := len(file.GetService()[0].GetMethod()); methods != 5 {
			t.Errorf("%s has %d methods", want, methods)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

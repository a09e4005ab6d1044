package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// grpcConfig is a configuration whose only fleet has a gRPC service. settings holds further settings of grpc_service,
// and may be empty.
func grpcConfig(settings, addr string) string {
	return strings.Replace(configOf("", addr), "backends:", "protocol: grpc, grpc_service: "+
		"{methods: [demo.v1.Demo/Echo, demo.v1.Demo/Count]"+settings+"}, backends:", 1)
}

// postTool calls a tool of caps over JSON.
func postTool(t *testing.T, public, tool, args string) (int, string) {
	t.Helper()
	resp, err := clienttest.HTTP.Post("http://"+public+"/v1/capabilities/caps/tools/"+tool,
		"application/json", strings.NewReader(args))
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(text)
}

// untilPosted calls a tool until it gets the wanted response.
func untilPosted(t *testing.T, public, tool, args string, want int, part string) {
	t.Helper()
	check.Until(t, "the response of a tool", func() (bool, string) {
		code, body := postTool(t, public, tool, args)
		return code == want && strings.Contains(body, part), fmt.Sprintf("%d %s, want %d %s", code, body, want, part)
	})
}

// changedDescriptors returns the descriptors of the service with another comment of Echo, of the same length.
func changedDescriptors() []byte {
	return bytes.ReplaceAll(grpctest.Descriptors, []byte("returns what it gets"), []byte("is another one now.."))
}

// TestGRPCService: methods of a gRPC service are discovered, are tools over JSON and MCP, and a changed one
// requires approval.
func TestGRPCService(t *testing.T) {
	t.Parallel()
	service := grpctest.Start(t, grpctest.Options{})
	p, public, _ := serve(t, nil, "--config", writeConfig(t, grpcConfig("", service.Addr)))
	untilPosted(t, public, "Echo", `{"cityName":"Ulm"}`, http.StatusOK, `"cityName":"Ulm"`)
	untilPosted(t, public, "Fail", `{}`, http.StatusNotFound, "TOOL_UNKNOWN") // it is not listed
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: "http://" + public + "/mcp", MaxRetries: -1}, nil)
	check.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	list, err := client.ListTools(t.Context(), nil)
	check.Must(t, err)
	at := slices.IndexFunc(list.Tools, func(tool *sdk.Tool) bool { return tool.Name == "caps__Echo" })
	if at < 0 || len(list.Tools) != 2 {
		t.Fatalf("%+v; at %+v", list, at)
	}
	echo := list.Tools[at]
	if output, _ := echo.OutputSchema.(map[string]any); output["type"] != "object" ||
		!strings.HasPrefix(echo.Description, "Echo returns what it gets.") {
		t.Errorf("%+v; output %+v", echo, output)
	}
	called, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__Echo",
		Arguments: map[string]any{"cityName": "Ulm"}})
	if err != nil || called.IsError {
		t.Fatalf("got %+v, %v", called, err)
	}
	if got, _ := called.StructuredContent.(map[string]any); got["cityName"] != "Ulm" {
		t.Errorf("got %+v", called.StructuredContent)
	}
	for _, token := range []any{nil, "t1"} {
		for to := range 3 {
			params := &sdk.CallToolParams{Name: "caps__Count", Arguments: map[string]any{"to": to}, Meta: sdk.Meta{}}
			if token != nil {
				params.SetProgressToken(token)
			}
			counted, err := client.CallTool(t.Context(), params)
			check.Must(t, err)
			if list, ok := counted.StructuredContent.([]any); counted.IsError || !ok || len(list) != to {
				t.Errorf("a stream: %+v; ok %+v; list %+v", counted, ok, list)
			}
		}
	}
	if code, body := postTool(t, public, "Echo", `{"city_name":"Ulm"}`); code != http.StatusBadRequest {
		t.Errorf("got %d %s", code, body)
	}
	service.Stop()
	grpctest.Start(t, grpctest.Options{Addr: service.Addr, Descriptors: changedDescriptors()})
	untilPosted(t, public, "Echo", `{}`, http.StatusAccepted, "") // of an approval
	p.stop(t)
}

// twoFaced is a capability that shares its port with another service.
type twoFaced struct {
	docpb.UnimplementedCapabilityServer
}

// Invoke implements docpb.CapabilityServer.
func (twoFaced) Invoke(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	return &docpb.InvokeResponse{ResultJson: []byte(`"a capability"`)}, nil
}

// Healthcheck implements docpb.CapabilityServer.
func (twoFaced) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

// TestProtocolOfABackendChanges: after a reload, a backend is reached by its fleet's protocol at the same
// address.
func TestProtocolOfABackendChanges(t *testing.T) {
	t.Parallel()
	service := grpctest.Start(t, grpctest.Options{Register: func(s grpc.ServiceRegistrar) {
		docpb.RegisterCapabilityServer(s, twoFaced{})
	}})
	// The dialect is that of a gRPC service too.
	asCapability := strings.Replace(configOf("", service.Addr), "backends:", "dialect: doc, backends:", 1)
	asService := grpcConfig("", service.Addr)
	file := writeConfig(t, asCapability)
	p, public, _ := serve(t, nil, "--config", file)
	untilPosted(t, public, "Echo", `{}`, http.StatusOK, "a capability")
	for range 2 {
		for _, now := range []struct{ text, part string }{{asService, `"cityName":"Ulm"`},
			{asCapability, "a capability"}} {
			check.Must(t, os.WriteFile(file, []byte(now.text), 0o600))
			p.signal(t, syscall.SIGHUP)
			untilPosted(t, public, "Echo", `{"cityName":"Ulm"}`, http.StatusOK, now.part)
		}
	}
	p.stop(t)
}

// TestDescriptorFile: a descriptor file replaces server reflection, is checked when the configuration is
// loaded, and is read again when it changes.
func TestDescriptorFile(t *testing.T) {
	t.Parallel()
	service := grpctest.Start(t, grpctest.Options{Reflection: grpctest.NoReflection})
	file := filepath.Join(t.TempDir(), "demo.binpb")
	check.Must(t, os.WriteFile(file, grpctest.Descriptors, 0o600))
	config := grpcConfig(", descriptor_file: "+file, service.Addr)
	p, public, _ := serve(t, nil, "--config", writeConfig(t, config))
	untilPosted(t, public, "Echo", `{"cityName":"Ulm"}`, http.StatusOK, `"cityName":"Ulm"`)
	check.Must(t, os.WriteFile(file, changedDescriptors(), 0o600))
	p.signal(t, syscall.SIGHUP)
	untilPosted(t, public, "Echo", `{}`, http.StatusAccepted, "") // of an approval, as the tool has changed
	p.stop(t)
}

// TestMistakesOfGRPCServices: the error of each mistake says what to do.
func TestMistakesOfGRPCServices(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "demo.binpb")
	check.Must(t, os.WriteFile(file, grpctest.Descriptors, 0o600))
	bad := filepath.Join(t.TempDir(), "bad.binpb")
	check.Must(t, os.WriteFile(bad, []byte("no descriptors"), 0o600))
	headers := writeConfig(t, "grpc-timeout-bin: x\n")
	for settings, want := range map[string]string{
		``: "grpc_service: required: the list of methods that are tools; write " +
			"grpc_service: {methods:",
		`grpc_service: {}`:                                   "methods: required",
		`grpc_service: {methods: []}`:                        "methods: no method is listed",
		`grpc_service: {methods: [Echo]}`:                    "is not a gRPC method; write package.Service/Method",
		`methods: [a.B/C], grpc_service: {methods: [a.B/C]}`: "methods: has no effect with protocol: grpc",
		`grpc_service: {methods: [a.B/Get, a.C/Get]}`: "a.C/Get has the tool name Get, as a.B/Get has; " +
			"tool_names: service", `grpc_service: {methods: [demo.v1.Demo/Nothing], descriptor_file: ` + file +
			`}`: "demo.v1.Demo/Nothing is not in the descriptors: its service has no such method",
		`grpc_service: {methods: [demo.v1.None/*], descriptor_file: ` + file +
			`}`: "demo.v1.None/* is not in the descriptors: they have no such service",
		`grpc_service: {methods: [demo.v1.Demo/Chat], descriptor_file: ` + file +
			`}`: "demo.v1.Demo/Chat uses client streaming",
		`grpc_service: {methods: [demo.v1.Streams/*], descriptor_file: ` + file +
			`}`: "none of the listed methods can be a tool",
		`grpc_service: {methods: [demo.v1.Demo/*, demo.v1.Other/*], descriptor_file: ` + file +
			`}`: "has the tool name Echo", `grpc_service: {methods: [a.B/C], descriptor_file: ` + bad +
			`}`: "is not a set of descriptors; protoc",
		`grpc_service: {methods: [a.B/C], descriptor_file: /none}`:        "descriptor_file",
		`grpc_service: {methods: [a.B/C], headers_file: ` + headers + `}`: "is not a header",
	} {
		if settings != "" {
			settings += ", "
		}
		text := strings.Replace(configOf("", "127.0.0.1:1"), "backends:", "protocol: grpc, "+settings+"backends:", 1)
		code, _, stderr := inProcess(t, "check", writeConfig(t, text))
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s\nwant %s", settings, code, stderr, want)
		}
	}
}

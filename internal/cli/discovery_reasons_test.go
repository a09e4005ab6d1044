package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// listing returns a capability's address with this response of its discovery tool, and the configuration of its
// fleet.
func listing(t *testing.T, lists func() ([]byte, string, error)) string {
	t.Helper()
	capability := gatewaytest.NewCapability("b1")
	capability.Lists = lists
	manifest := writeConfig(t, "id: caps\nimage: x\ntool_source: dynamic\ndiscovery_tool_name: "+gatewaytest.List+"\n")
	return strings.Replace(configOf("", capability.Serve(t, call.Doc).Addr), "backends:", "manifest: "+manifest+
		", backends:", 1)
}

// listingMCP returns the configuration of a fleet with an MCP server that answers tools/list with an error.
func listingMCP(t *testing.T, failure string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		answer := map[string]string{"tools/list": failure, "ping": `"result":{}`,
			"initialize": `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},` +
				`"serverInfo":{"name":"s","version":"1"}}`}[q.Method]
		switch {
		case q.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case answer == "":
			answer = `"error":{"code":-32601,"message":"no such method"}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, q.ID, answer)
	}))
	t.Cleanup(server.Close)
	headers := writeConfig(t, "Authorization: Bearer configured-credential\n")
	return strings.Replace(configOf("", server.URL), "backends:", "protocol: mcp, mcp_server: {headers_file: "+headers+
		"}, backends:", 1)
}

// reflecting returns the configuration of a fleet with a gRPC service, one of whose files is broken.
func reflecting(t *testing.T, methods string) string {
	t.Helper()
	r := grpctest.NewReflected(t)
	r.Symbols["b.v1.Broken"] = "broken.proto"
	text, err := proto.Marshal(&descriptorpb.FileDescriptorProto{Name: proto.String("broken.proto"),
		Package: proto.String("b.v1"), Dependency: []string{"gone.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Broken")}}})
	check.Must(t, err)
	r.Files["broken.proto"] = text
	service := grpctest.Start(t, grpctest.Options{Reflect: r.Answer})
	return strings.Replace(configOf("", service.Addr), "backends:",
		"protocol: grpc, grpc_service: {methods: ["+methods+"]}, backends:", 1)
}

// TestCauseOfAFailedDiscoveryIsReported: log, catalog and command line have the cause, and no credential.
func TestCauseOfAFailedDiscoveryIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		want   []string
		hidden string // in none of them; empty means nothing
	}{
		"an error of a tool": {listing(t, func() ([]byte, string, error) {
			return nil, "the registry is locked", nil
		}), []string{"returned an error", "the registry is locked"}, ""},
		"a status": {listing(t, func() ([]byte, string, error) {
			return nil, "", status.Error(codes.Internal, "the registry\nis locked")
		}), []string{"Internal", "the registry is locked"}, ""},
		"a status with a credential": {listing(t, func() ([]byte, string, error) {
			return nil, "", status.Error(codes.Internal, "GET https://ann:hunter2@registry failed")
		}), []string{"Internal", "is not shown"}, "hunter2"},
		"no list": {listing(t, func() ([]byte, string, error) { return []byte(`{}`), "", nil }),
			[]string{"the answer of the discovery tool", "is invalid"}, ""},
		"an error of JSON-RPC": {listingMCP(t, `"error":{"code":-32603,"message":"the index is locked"}`),
			[]string{"MCP error -32603", "the index is locked"}, ""},
		"a credential in an error": {listingMCP(t,
			`"error":{"code":-32603,"message":"no: Bearer configured-credential"}`),
			[]string{"Internal", "is not shown"}, "configured-credential"},
		"no list of MCP": {listingMCP(t, `"result":{"tools":7}`), []string{"not valid for tools/list"}, ""},
		"a broken file": {reflecting(t, "b.v1.Broken/*"),
			[]string{"broken.proto", "gone.proto", "has no file of this name"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, admin := serve(t, nil, "--config", writeConfig(t, c.config))
			logged := p.stderr.wait(t, p, `"msg":"tool discovery failed; the known tools stay"`)
			_, logged, _ = strings.Cut(logged, `"msg":"tool discovery failed; the known tools stay"`)
			listed := waitPage(t, "http://"+admin+"/v1/capabilities/caps", "last_error")
			_, shown, _ := capgateCatalog(t, admin, "show", "caps")
			for where, text := range map[string]string{"log": logged, "catalog": listed, "command line": shown} {
				for _, part := range c.want {
					if !strings.Contains(text, part) {
						t.Errorf("%s lacks %s: %.1000s", where, part, text)
					}
				}
			}
			for where, text := range map[string]string{"log": p.stderr.String(), "catalog": listed,
				"command line": shown} {
				if c.hidden != "" && strings.Contains(text, c.hidden) {
					t.Errorf("%s has %s: %.1000s", where, c.hidden, text)
				}
			}
			p.stop(t)
		})
	}
}

// TestToolsOmittedByADiscoveryAreReported: log, catalog and command line have the file and the cause, and all other
// tools are served.
func TestToolsOmittedByADiscoveryAreReported(t *testing.T) {
	t.Parallel()
	p, public, admin := serve(t, nil, "--config", writeConfig(t, reflecting(t, "b.v1.Broken/*, demo.v1.Demo/Echo")))
	untilPosted(t, public, "Echo", `{"cityName":"Ulm"}`, http.StatusOK, `"cityName":"Ulm"`)
	p.stderr.wait(t, p, "a method of a gRPC service was left out")
	listed := waitPage(t, "http://"+admin+"/v1/capabilities/caps", "left_out")
	_, shown, _ := capgateCatalog(t, admin, "show", "caps")
	for where, text := range map[string]string{"log": p.stderr.String(), "catalog": listed, "command line": shown} {
		if !strings.Contains(text, "b.v1.Broken/*") || !strings.Contains(text, "broken.proto") ||
			!strings.Contains(text, "gone.proto") {
			t.Errorf("%s: %.1000s", where, text)
		}
	}
	if strings.Contains(listed, "last_error") {
		t.Errorf("the discovery failed: %s", listed)
	}
	p.stop(t)
}

// TestMethodsThatAreNoTools: methods of a service in a descriptor file that cannot be tools are left out and
// named; one that is listed by name is a mistake.
func TestMethodsThatAreNoTools(t *testing.T) {
	t.Parallel()
	set := &descriptorpb.FileDescriptorSet{}
	check.Must(t, proto.Unmarshal(grpctest.Descriptors, set))
	for _, file := range set.GetFile() {
		for _, s := range file.GetService() {
			if s.GetName() == "Demo" {
				s.Method = append(s.Method, &descriptorpb.MethodDescriptorProto{Name: proto.String("Bare"),
					InputType: proto.String(".google.protobuf.StringValue"), OutputType: s.GetMethod()[0].OutputType})
			}
		}
	}
	text, err := proto.Marshal(set)
	check.Must(t, err)
	file := filepath.Join(t.TempDir(), "demo.binpb")
	check.Must(t, os.WriteFile(file, text, 0o600))
	service := grpctest.Start(t, grpctest.Options{Reflection: grpctest.NoReflection})
	config := func(methods string) string {
		return writeConfig(t, strings.Replace(configOf("", service.Addr), "backends:", fmt.Sprintf(
			"protocol: grpc, grpc_service: {methods: [%s], descriptor_file: %s}, backends:", methods, file), 1))
	}
	const cause = "demo.v1.Demo/Bare cannot be a tool: its schema is not an object"
	if code, _, stderr := inProcess(t, "check", config("demo.v1.Demo/*")); code != 0 ||
		!strings.Contains(stderr, "warning: fleet caps: grpc_service: "+cause) {
		t.Errorf("got %d %s", code, stderr)
	}
	for _, methods := range []string{"demo.v1.Demo/Bare", "demo.v1.Demo/*, demo.v1.Demo/Bare"} {
		if code, _, stderr := inProcess(t, "check", config(methods)); code != 1 || !strings.Contains(stderr, cause) ||
			strings.Contains(stderr, "warning") {
			t.Errorf("%s: %d %s", methods, code, stderr)
		}
	}
	p, public, admin := serve(t, nil, "--config", config("demo.v1.Demo/*"))
	untilPosted(t, public, "Echo", `{"cityName":"Ulm"}`, http.StatusOK, `"cityName":"Ulm"`)
	if text := p.stderr.wait(t, p, "a method of a gRPC service was left out"); !strings.Contains(text, cause) {
		t.Errorf("the log: %s", text)
	}
	if text := waitPage(t, "http://"+admin+"/v1/capabilities/caps", "left_out"); !strings.Contains(text, cause) {
		t.Errorf("the catalog: %s", text)
	}
	p.stop(t)
}

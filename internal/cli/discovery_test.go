package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// countLists counts the requests that list the tools of an MCP server.
func countLists(next http.Handler, lists *atomic.Int32) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte(`"tools/list"`)) {
			lists.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// listedBy returns the names of the tools in the response of a discovery tool, by door.
func listedBy(t *testing.T, public, capability string) map[string]string {
	t.Helper()
	names := func(text string) string {
		var tools []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"input_schema"`
		}
		if err := json.Unmarshal([]byte(text), &tools); err != nil {
			return text
		}
		var all []string
		for _, tool := range tools {
			if all = append(all, tool.Name); len(tool.Schema) < 3 {
				all = append(all, "without a schema")
			}
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	req := &docpb.InvokeRequest{CapabilityId: capability, ToolName: "tools/list"}
	answers, client := map[string]string{}, dial(t, public)
	if r, err := client.Invoke(t.Context(), req); err != nil {
		answers["gRPC"] = clienttest.Reason(err)
	} else {
		answers["gRPC"] = names(string(r.GetResultJson()))
	}
	stream, err := client.StreamInvoke(t.Context(), req)
	check.Must(t, err)
	if c, err := stream.Recv(); err != nil {
		answers["a stream"] = clienttest.Reason(err)
	} else {
		answers["a stream"] = names(string(c.GetData()))
		_, _ = stream.Recv()
	}
	resp, err := clienttest.HTTP.Post("http://"+public+"/v1/capabilities/"+capability+"/invoke", "application/json",
		strings.NewReader(`{"tool_name":"tools/list"}`))
	check.Must(t, err)
	defer resp.Body.Close()
	var answer struct {
		Result json.RawMessage
		Reason string
	}
	check.Must(t, json.NewDecoder(resp.Body).Decode(&answer))
	answers["JSON"] = names(string(answer.Result)) + answer.Reason
	var over struct {
		Result struct {
			Content []struct{ Text string }
		}
		Error struct{ Data struct{ Reason string } }
	}
	check.Must(t, json.Unmarshal([]byte(askMCP(t, public, "tools/call", `{"name":"`+capability+`__tools/list"}`)),
		&over))
	if answers["MCP"] = over.Error.Data.Reason; len(over.Result.Content) == 1 {
		answers["MCP"] = names(over.Result.Content[0].Text)
	}
	return answers
}

// TestCallersReadTheCatalog: at every door, the discovery tool of an MCP server or a gRPC service returns what
// its caller may use, and starts no discovery. Policy decides about it as about any other tool.
func TestCallersReadTheCatalog(t *testing.T) {
	t.Parallel()
	var want atomic.Value
	want.Store("")
	server, web := newMCPServer(t, &want)
	addTool(server, "secret", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	var lists atomic.Int32
	web.Config.Handler = countLists(web.Config.Handler, &lists)
	web.Start()
	service := grpctest.Start(t, grpctest.Options{})
	fleets := mcpFleet("web", web.URL+"/mcp", "") +
		"  - {capability: rpc, protocol: grpc, policy: allow, slow_start: 0s, " + patientProbes + ", " +
		"grpc_service: {methods: [demo.v1.Demo/Echo, demo.v1.Demo/Count]}, backends: ['" + service.Addr + "']}\n"
	p, public, admin := serve(t, nil, "--config", writeConfig(t, mcpConfig("policies: {}\n"+patientRedis(""), fleets)))
	w := &twoTenants{program: p, public: public, admin: admin}
	waitTools(t, public, "web__weather", "web__secret", "rpc__Echo", "rpc__Count")
	w.run(t, 0, "policy", "set", "web", "secret", "block")
	w.run(t, 0, "policy", "set", "rpc", "Count", "block")
	check.Until(t, "the rules", func() (bool, string) {
		text := askMCP(t, public, "tools/list", "{}")
		return !strings.Contains(text, "secret") && !strings.Contains(text, "Count"), text
	})
	before := lists.Load()
	for capability, names := range map[string]string{"web": "weather", "rpc": "Echo"} {
		for door, got := range listedBy(t, public, capability) {
			if got != names {
				t.Errorf("%s by %s: %q, want %q", capability, door, got, names)
			}
		}
	}
	if n := lists.Load() - before; n != 0 {
		t.Errorf("requests of callers listed the server's tools %d times", n)
	}
	w.run(t, 0, "policy", "set", "web", "tools/list", "block", "--force")
	check.Until(t, "the rule", func() (bool, string) {
		all := listedBy(t, public, "web")
		for door, got := range all {
			want := "TOOL_BLOCKED"
			if door == "MCP" {
				want = "TOOL_UNKNOWN" // as for a tool that does not exist
			}
			if got != want {
				return false, door + " " + got
			}
		}
		return len(all) == 4, ""
	})
	p.stop(t)
}

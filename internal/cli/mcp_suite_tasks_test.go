package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// tasksScenarios is the beginning of the names of the scenarios of the extension for tasks.
const tasksScenarios = "tasks-"

// tasksServers runs the servers with the tools that those scenarios call. The calls of one become tasks.
func tasksServers(t *testing.T) (greets, works string) {
	t.Helper()
	serves := func(server *sdk.Server) string {
		web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
			&sdk.StreamableHTTPOptions{Stateless: true}))
		t.Cleanup(func() {
			web.CloseClientConnections()
			web.Close()
		})
		return web.URL
	}
	text := func(text string, failed bool) sdk.ToolHandler {
		return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{IsError: failed, Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
		}
	}
	one := sdk.NewServer(&sdk.Implementation{Name: "greets", Version: "1"}, nil)
	sdk.AddTool(one, &sdk.Tool{Name: "greet", Description: "of a test"}, func(_ context.Context, _ *sdk.CallToolRequest,
		in struct {
			Name string `json:"name"`
		}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Hello, " + in.Name + "!"}}}, nil, nil
	})
	other := sdk.NewServer(&sdk.Implementation{Name: "works", Version: "1"}, nil)
	for _, name := range []string{"slow_compute", "confirm_delete", "multi_input", "test_tool_with_task"} {
		addTool(other, name, text("done", false))
	}
	addTool(other, "failing_job", text("failed", true))
	addTool(other, "protocol_error_job", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the job has crashed"}
	})
	return serves(one), serves(other)
}

// TestMCPTasksConformance: a task of /mcp is a call that waits for a person. If a person approves all calls but those
// of a minute, the scenarios of the extension pass at three gateways, each of which gets every third request.
// testdata/mcp names each failing scenario with its reason; a named scenario that passes is an error.
func TestMCPTasksConformance(t *testing.T) {
	t.Parallel()
	const revision = "2026-07-28"
	greets, works := tasksServers(t)
	key := writeConfig(t, base64.StdEncoding.EncodeToString(make([]byte, 32)))
	c := startBackends(t, 0)
	c.file = writeConfig(t, mcpConfig("approvals: {}\nsecret_file: "+key+"\n"+patientRedis(c.redis.URL()),
		mcpFleet("greets", greets, "name: none"),
		strings.Replace(mcpFleet("works", works, "name: none"), "policy: allow", "policy: ask", 1)))
	for i := range 3 {
		g := &member{addr: net.JoinHostPort(c.host, strconv.Itoa(20_101+i))}
		c.gateways = append(c.gateways, g)
		c.startGateway(t, g)
		waitTools(t, g.addr, "greet", "slow_compute")
	}
	approveShort(t, c.gateways[0].admin)
	url := balance(t, &spread{gateways: c.gateways, base: &http.Transport{DisableKeepAlives: true}})
	failures, err := filepath.Abs(filepath.Join("testdata", "mcp", revision+".yaml"))
	check.Must(t, err)
	named := readExceptions(t, failures)
	for _, scenario := range requirements(t, revision).further("server") {
		if !strings.HasPrefix(scenario, tasksScenarios) {
			continue
		}
		t.Run(scenario, func(t *testing.T) {
			cmd := conformance(t, 10, "server", "--url", url+"/mcp", "--scenario", scenario, "--spec-version",
				revision, "--force")
			cmd.Env = append(cmd.Env, "SLOW_CLOCK=yes")
			out, err := cmd.CombinedOutput()
			reason, fails := named.Reasons[scenario]
			if (err != nil) != fails || !strings.Contains(string(out), "Passed: ") { // otherwise it was not run
				t.Errorf("%v; the reason to fail: %q\n%s", err, reason, out)
			}
		})
	}
}

// approveShort approves all calls but those of a minute, until the test ends.
func approveShort(t *testing.T, admin string) {
	t.Helper()
	by := desk(t, admin)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := by.WatchApprovals(ctx, &capgatepb.WatchApprovalsRequest{})
	check.Must(t, err)
	_, err = events.Recv() // the beginning
	check.Must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			e, err := events.Recv()
			if err != nil {
				return
			}
			a := e.GetApproval()
			if a.GetState() == "pending" && !strings.Contains(a.GetArguments(), "60") {
				_, err = by.Approve(ctx, &capgatepb.ApproveRequest{ApprovalId: a.GetId()})
				if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
					t.Errorf("an approval: %v", err)
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

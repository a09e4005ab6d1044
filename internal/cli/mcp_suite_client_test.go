package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestMCPClientConformance: the official suite passes at the gateway as a client of MCP servers. For each scenario the
// suite starts a server and the command below, which calls everything that the server has through a gateway of its own.
// testdata/mcp names each failing scenario with its reason. In the scenarios auth/…, an operator logs the fleet in, or
// the gateway authenticates by itself, which is an extension.
func TestMCPClientConformance(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	check.Must(t, err)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		failures, err := filepath.Abs(filepath.Join("testdata", "mcp", revision+".yaml"))
		check.Must(t, err)
		all := requirements(t, revision)
		for _, scenario := range slices.Concat(all.Client, all.further("client"), clientCredentials()) {
			t.Run(revision+" "+scenario, func(t *testing.T) {
				t.Parallel()
				runs := func() error {
					cmd := conformance(t, 10, "client", "--command", self, "--scenario", scenario, "--spec-version",
						revision, "--expected-failures", failures, "--timeout",
						strconv.FormatInt(4*check.Patience.Milliseconds(), 10))
					if slices.Contains(clientCredentials(), scenario) {
						cmd.Args = append(cmd.Args, "--force") // extensions belong to no revision
					}
					cmd.Env = append(cmd.Env, asCommand+"=suite client", noRaceWait)
					out, err := cmd.CombinedOutput()
					if err != nil {
						err = fmt.Errorf("%w\n%s", err, out)
					}
					return err
				}
				if scenario != "sse-retry" {
					check.Must(t, runs())
					return
				}
				// It requires a request between 450 and 700 ms after an event, which a busy machine may miss.
				check.Succeeds(t, scenario, runs)
			})
		}
	}
}

// required holds the names of scenarios.
type required struct {
	Server, Client []string
	NotScored      []struct{ Scenario, Leg, Reason string } `yaml:"not_scored"`
}

// exceptions are the scenarios that testdata/mcp names, apart from those that the suite expects to fail.
type exceptions struct {
	Reasons map[string]string // of scenarios of servers that fail, and that the suite does not require
}

func readExceptions(t *testing.T, file string) (of exceptions) {
	t.Helper()
	text, err := os.ReadFile(file)
	check.Must(t, err)
	check.Must(t, yaml.Unmarshal(text, &of))
	return of
}

// further returns the scenarios of servers, or of clients, that the suite runs without requiring them, except those of
// extensions for clients.
func (r required) further(leg string) (scenarios []string) {
	for _, s := range r.NotScored {
		if s.Leg == leg && (s.Reason != "extension" || leg == "server") {
			scenarios = append(scenarios, s.Scenario)
		}
	}
	return scenarios
}

// requirements returns the scenarios that the suite requires for a revision.
func requirements(t *testing.T, revision string) required {
	t.Helper()
	of := readRequired(t, installed(t, "node", "node_modules", "@modelcontextprotocol", "conformance", "requirements",
		revision+".yaml"))
	if len(of.Server) == 0 || len(of.Client) == 0 {
		t.Fatalf("the suite requires nothing for %s", revision)
	}
	return of
}

func readRequired(t *testing.T, file string) (of required) {
	t.Helper()
	text, err := os.ReadFile(file)
	check.Must(t, err)
	check.Must(t, yaml.Unmarshal(text, &of))
	return of
}

// suiteClient is the command that the suite runs as a client. It runs a gateway in front of the scenario's server, and
// calls everything that the server has.
func suiteClient(server string) (exit int) {
	t := &redistest.Main{}
	defer t.Close()
	dir, err := os.MkdirTemp("", "suite")
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "capgate.yaml")
	config := mcpConfig("", mcpFleet("suite", server, "name: none", suiteSettings(t, dir, server)))
	check.Must(t, os.WriteFile(file, []byte(config), 0o600))
	gateway := exec.Command(os.Args[0], "serve", "--config", file)
	gateway.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it ends with this command
	gateway.Env = slices.Concat(cleanEnv(), []string{asCommand + "=capgate", "CAPGATE_ADMIN_INSECURE=1"})
	log := newCapture()
	gateway.Stderr = log
	check.Must(t, gateway.Start())
	serving := ""
	check.Until(t, "the gateway to serve", func() (bool, string) {
		serving = log.String()
		return strings.Contains(serving, `"msg":"serving"`), serving
	})
	admin := "http://" + attribute(serving, "admin")
	login := func() bool { return logIn(dir, admin) }
	if !needsLogin() || loggedIn(t, admin, login) {
		callThrough(t, "http://"+attribute(serving, "listen")+"/mcp", admin, login)
	} else {
		exit = 1
	}
	check.Must(t, gateway.Process.Signal(syscall.SIGTERM))
	_ = gateway.Wait()
	fmt.Fprintln(os.Stderr, log)
	return exit
}

// callThrough calls everything that the gateway has of the scenario's server, once it lists the tools. It logs in again
// if a call needs that.
func callThrough(t check.TB, url, admin string, login func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*check.Patience)
	defer cancel()
	check.Until(t, "the tools of the server", func() (bool, string) {
		seen := got(t, admin+"/v1/capabilities")
		return strings.Contains(seen, `"last_success"`), seen
	})
	client := sdk.NewClient(&sdk.Implementation{Name: "plain", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
			Form: &sdk.FormElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: valuesFor(r.Params.RequestedSchema)}, nil
		},
	})
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: url},
		&sdk.ClientSessionOptions{ProtocolVersion: os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION")})
	check.Must(t, err)
	defer func() { _ = session.Close() }()
	calls, err := scenarioCalls(ctx, session)
	check.Must(t, err)
	for _, call := range calls { // the scenario judges what its server received
		for attempt := range 2 {
			of, done := context.WithTimeout(ctx, check.Patience/2)
			result, err := session.CallTool(of, call)
			done()
			fmt.Fprintln(os.Stderr, call.Name, result, err)
			if err == nil || attempt > 0 || !strings.Contains(err.Error(), "access token") || !login() {
				break
			}
		}
	}
	if resources, err := session.ListResources(ctx, nil); err == nil {
		for _, r := range resources.Resources {
			_, _ = session.ReadResource(ctx, &sdk.ReadResourceParams{URI: r.URI})
		}
	}
	if prompts, err := session.ListPrompts(ctx, nil); err == nil {
		for _, p := range prompts.Prompts {
			_, _ = session.GetPrompt(ctx, &sdk.GetPromptParams{Name: p.Name})
		}
	}
}

// scenarioCalls returns the calls that the scenario requests, or one of each tool.
func scenarioCalls(ctx context.Context, session *sdk.ClientSession) ([]*sdk.CallToolParams, error) {
	var wanted struct{ ToolCalls []*sdk.CallToolParams }
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &wanted); err != nil {
			return nil, err
		}
	}
	list, err := session.ListTools(ctx, nil) // the SDK needs the schemas for headers
	if err != nil || wanted.ToolCalls != nil {
		return wanted.ToolCalls, err
	}
	for _, tool := range list.Tools {
		args := valuesFor(tool.InputSchema)
		if tool.Name == "json_schema_echo" { // takes the schema of the tool before it
			args["schema"] = list.Tools[0].InputSchema
		}
		wanted.ToolCalls = append(wanted.ToolCalls, &sdk.CallToolParams{Name: tool.Name, Arguments: args})
	}
	return wanted.ToolCalls, nil
}

// valuesFor returns a value for each property of a schema that has no default.
func valuesFor(schema any) map[string]any {
	text, _ := json.Marshal(schema)
	var of struct {
		Properties map[string]struct {
			Type    string
			Default any
		}
	}
	_ = json.Unmarshal(text, &of)
	values := map[string]any{}
	for name, p := range of.Properties {
		switch {
		case p.Default != nil:
		case p.Type == "string":
			values[name] = "text"
		case p.Type == "boolean":
			values[name] = true
		case p.Type == "number", p.Type == "integer":
			values[name] = 1
		}
	}
	return values
}

// got returns a page.
func got(t check.TB, url string) string {
	resp, err := clienttest.HTTP.Get(url)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(text)
}

package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// realServer runs a program that is an MCP server and prints its port.
func realServer(t *testing.T, env []string, name string, args ...string) (p *program, url string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(cleanEnv(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p = launch(t, cmd)
	const before = "LISTENS ON "
	out := p.stderr
	if strings.HasSuffix(args[0], ".py") {
		out = p.stdout
	}
	_, text, _ := strings.Cut(out.wait(t, p, before), before)
	port, _, _ := strings.Cut(text, ".")
	return p, "http://127.0.0.1:" + port + "/mcp"
}

// nodeServer runs a server from npm.
func nodeServer(t *testing.T, args ...string) (p *program, url string) {
	t.Helper()
	port, err := filepath.Abs(filepath.Join("testdata", "mcp", "port.mjs"))
	check.Must(t, err)
	args[0] = installed(t, "node", "node_modules", args[0])
	return realServer(t, []string{"PORT=0"}, installed(t, "node", "node_modules", nodeBinary(), "bin", "node"),
		append([]string{"--import", port}, args...)...)
}

// goServer returns a server of the Go SDK with the tool hello.
func goServer(t *testing.T, stateless bool) (url string) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "go", Version: "1"}, nil)
	addTool(server, "hello", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello"}}}, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// realTool is a call of a tool of a real server. The JSON-RPC response contains want.
type realTool struct{ tool, args, want string }

func (c realTool) check(t *testing.T, public string) {
	t.Helper()
	got := askMCP(t, public, "tools/call", `{"name":"`+c.tool+`","arguments":`+c.args+`}`)
	if !strings.Contains(got, c.want) {
		t.Errorf("%s %s: %s\nwant %s", c.tool, c.args, got, c.want)
	}
}

// TestMCPRealServers: servers in TypeScript, Python and Go, and one behind a bridge of standard input and
// output, are called over MCP, JSON, server-sent events and gRPC. If one dies, its tools stay listed, and the
// others respond.
func TestMCPRealServers(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(files, "a.txt"), []byte("a text"), 0o600))
	dying, everything := nodeServer(t, "@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp")
	bridge, bridged := nodeServer(t, "mcp-proxy/dist/bin/mcp-proxy.mjs", "--host", "127.0.0.1", "--port", "0", "--",
		installed(t, "node", "node_modules", nodeBinary(), "bin", "node"),
		installed(t, "node", "node_modules", "@modelcontextprotocol", "server-filesystem", "dist", "index.js"), files)
	python, inPython := realServer(t, nil, installed(t, "venv", "bin", "python"),
		filepath.Join("testdata", "mcp", "server.py"))
	_, inFastMCP := realServer(t, []string{"PYTHONPATH=" + installed(t, "langchain")},
		installed(t, "venv", "bin", "python"), filepath.Join("testdata", "mcp", "fastmcp.py"))
	const checks = "validate_arguments: true, mcp_server: {questions: [elicitation, sampling, roots]}"
	p, public, _ := serve(t, nil, "--config", writeConfig(t, mcpConfig("",
		mcpFleet("everything", everything, "", checks), mcpFleet("files", bridged, "", checks),
		mcpFleet("python", inPython, "", checks), mcpFleet("fastmcp", inFastMCP, "", checks),
		mcpFleet("forge", forgeServer(t), "", checks), mcpFleet("new", goServer(t, true), ""),
		mcpFleet("old", goServer(t, false), ""))))
	first := []string{"everything__echo", "files__read_text_file", "python__add", "fastmcp__greet", forgeTool(0),
		"new__hello", "old__hello"}
	waitTools(t, public, first...)
	for _, c := range []realTool{
		{"everything__echo", `{"message":"hi"}`, `"Echo: hi"`},
		{"everything__get-sum", `{"a":1,"b":2}`, "The sum of 1 and 2 is 3."},
		{"everything__get-sum", `{"a":"1"}`, `"isError":true`},
		{"everything__get-tiny-image", `{}`, `"type":"image"`},
		{"everything__get-structured-content", `{"location":"Chicago"}`, `"structuredContent":{"temperature":`},
		{"everything__get-resource-links", `{"count":2}`, `"type":"resource_link"`},
		{"everything__ecko", `{}`, `did you mean \"everything__echo\"?`},
	} {
		c.check(t, public)
	}
	living := []realTool{
		{"files__read_text_file", `{"path":"` + filepath.Join(files, "a.txt") + `"}`, "a text"},
		{"files__write_file", `{"path":"` + filepath.Join(files, "b.txt") + `","content":"b"}`, "Successfully wrote"},
		{"files__list_directory", `{"path":"` + files + `"}`, "[FILE] b.txt"},
		{"files__read_text_file", `{"path":"/etc/passwd"}`, "Access denied"},
		{"files__read_text_file", `{"path":1}`, `"isError":true`},
		{"python__add", `{"a":1,"b":2}`, `"structuredContent":{"result":3}`},
		{"python__fail", `{}`, `"isError":true`},
		{"python__picture", `{}`, `"data":"aW1n"`},
		{"new__hello", `{}`, "hello"},
		{"old__hello", `{}`, "hello"},
	}
	for _, c := range living {
		c.check(t, public)
	}
	streamsOfRealServers(t, public, python)
	t.Run("clients", func(t *testing.T) { clientsOfRealServers(t, public, filepath.Join(files, "a.txt")) })
	check.Must(t, dying.cmd.Process.Kill())
	check.Received(t, dying.exited, "the end of the process")
	for range 2 {
		for _, c := range append(living, realTool{"everything__echo", `{"message":"hi"}`, `"code":"UNAVAILABLE"`}) {
			c.check(t, public)
		}
	}
	waitTools(t, public, first...)
	p.stop(t)
	if text := bridge.stderr.String(); strings.Contains(text, "Rejected inbound request") {
		t.Errorf("the bridge rejects a message: %s", text)
	}
}

// streamsOfRealServers: progress is sent as chunks and as events, and the server is notified when a call ends.
func streamsOfRealServers(t *testing.T, public string, python *program) {
	t.Helper()
	client := dial(t, public)
	for _, c := range []struct {
		capability, tool, args string
		want                   []string
	}{
		{"everything", "trigger-long-running-operation", `{"duration":0.01,"steps":2}`,
			[]string{`{"progress":1,"total":2}`, `{"progress":2,"total":2}`,
				`"Long running operation completed. Duration: 0.01 seconds, Steps: 2."`}},
		{"python", "count", `{"to":2}`, []string{`{"progress":1,"total":2,"message":"step 1"}`,
			`{"progress":2,"total":2,"message":"step 2"}`, `{"result":"done"}`}},
	} {
		stream, err := client.StreamInvoke(t.Context(), &docpb.InvokeRequest{CapabilityId: c.capability,
			ToolName: c.tool, ArgsJson: []byte(c.args)})
		check.Must(t, err)
		var chunks []string
		chunk, err := stream.Recv()
		for ; err == nil; chunk, err = stream.Recv() {
			chunks = append(chunks, strings.TrimSpace(string(chunk.GetData())))
		}
		if !errors.Is(err, io.EOF) || !slices.Equal(chunks, c.want) {
			t.Errorf("%s %s: %q, %v", c.capability, c.tool, chunks, err)
		}
		url := "http://" + public + "/v1/capabilities/" + c.capability + "/tools/" + c.tool
		for accept, want := range map[string][]string{"text/event-stream": c.want, "application/json": c.want[2:]} {
			resp, text := clienttest.Send(t, clienttest.HTTP, http.MethodPost, url, c.args, "Accept", accept)
			check.Must(t, resp.Body.Close())
			for _, part := range want {
				if !strings.Contains(text, part) {
					t.Errorf("%s %s: %s", url, accept, text)
				}
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	go func() {
		python.stdout.wait(t, python, "BEGAN")
		cancel()
	}()
	if _, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "python", ToolName: "block"}); err == nil {
		t.Error("a call that blocks has ended")
	}
	python.stdout.wait(t, python, "CANCELLED")
}

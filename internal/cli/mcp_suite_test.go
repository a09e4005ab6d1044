package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
)

// The official suite against three gateways with one Redis. Each request goes to the next gateway.

// everyQuestion permits all questions of the suite's servers.
const everyQuestion = "mcp_server: {questions: [elicitation, sampling, roots], sessions: shared}"

// everythingServer returns the program with all that the suite calls, of MCP's Go SDK. The first test that needs it
// builds it. The suite's own one is in no package.
//
//nolint:gochecknoglobals // built once
var everythingServer = sync.OnceValues(func() (path string, err error) {
	cmd := exec.Command("go", "-C", filepath.Join(root, "tools", "mcp"), "tool", "-n", "everything-server")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build everything-server: %w\n%s", err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
})

// startEverything runs the server at an address. Before 2026-07-28 it has sessions.
func startEverything(t *testing.T, addr, revision string) *program {
	t.Helper()
	path, err := everythingServer()
	check.Must(t, err)
	cmd := exec.Command(path, "-http", addr, "-stateless="+strconv.FormatBool(revision >= "2026-07-28"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it ends with the tests
	p := launch(t, cmd)
	check.Succeeds(t, "everything-server to listen", func() error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	return p
}

// changingServer has the tool that changes the tools, for which everything-server adds a tool only once. The tool
// responds when listed reports that the gateways list the new one: the next scenario compares lists.
func changingServer(t *testing.T, listed func(tool string)) (url string) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "changes", Version: "1"}, nil)
	addTool(server, "test_trigger_tool_change", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult,
		error) {
		name := "changed_" + strings.ToLower(rand.Text())
		addTool(server, name, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
		listed(name)
		return &sdk.CallToolResult{}, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// suite is three gateways in front of the servers that the official suite needs.
type suite struct {
	*cluster
	spread *spread
}

// startSuite runs gateways with a probe interval and this configuration of Redis, in front of replicas of
// everything-server.
func startSuite(t *testing.T, c *cluster, redis string, interval time.Duration, servers ...string) *suite {
	t.Helper()
	s := &suite{cluster: c}
	changing := changingServer(t, func(tool string) {
		for _, g := range s.gateways {
			waitTools(t, g.addr, tool)
		}
	})
	config := mcpConfig(redis,
		mcpFleet("changes", changing, "name: none"), // first, so that it has precedence for the tool of both
		mcpFleet("suite", "http://"+strings.Join(servers, "', 'http://"), "name: none", everyQuestion))
	c.file = writeConfig(t, strings.ReplaceAll(config, patientProbes, fmt.Sprintf("health: {interval: %v, timeout: 5s}",
		interval)))
	for i := range 3 {
		g := &member{addr: net.JoinHostPort(c.host, strconv.Itoa(20_101+i))}
		c.gateways = append(c.gateways, g)
		c.startGateway(t, g)
	}
	for _, g := range c.gateways {
		s.knows(t, g)
	}
	s.spread = &spread{gateways: c.gateways, base: &http.Transport{DisableKeepAlives: true}}
	return s
}

// knows waits until a gateway has the first lists of the servers.
func (s *suite) knows(t *testing.T, g *member) {
	t.Helper()
	waitTools(t, g.addr, "test_simple_text", "test_trigger_tool_change")
	for method, part := range map[string]string{"prompts/list": "test_simple_prompt",
		"resources/list": "test://static-text", "resources/templates/list": "test://template"} {
		check.Until(t, "the first list of "+method, func() (bool, string) {
			list := askMCP(t, g.addr, method, "{}")
			return strings.Contains(list, part), list
		})
	}
}

// conformance returns a command of the suite. It waits patience times as long as usual for most responses.
func conformance(t *testing.T, patience int, args ...string) *exec.Cmd {
	t.Helper()
	node := installed(t, "node", "node_modules", nodeBinary(), "bin", "node")
	program := installed(t, "node", "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	patient, err := filepath.Abs(filepath.Join("testdata", "mcp", "patient.cjs"))
	check.Must(t, err)
	cmd := exec.CommandContext(t.Context(), node, append([]string{"--require", patient, program}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), append(cleanEnv(), "PATIENCE="+strconv.Itoa(patience))
	return cmd
}

// spread is a load balancer that sends each request to the next gateway, and to another one if that accepts no
// connection.
type spread struct {
	gateways []*member
	base     http.RoundTripper
	next     atomic.Uint32
	last     atomic.Pointer[member] // has accepted the last request
}

// balance runs the load balancer.
func balance(t *testing.T, to http.RoundTripper) (url string) {
	t.Helper()
	proxy := &httputil.ReverseProxy{Transport: to, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "gateways", r.In.Host
		}}
	web := httptest.NewServer(proxy)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// RoundTrip implements http.RoundTripper.
func (s *spread) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	var err error
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	first := int(s.next.Add(1))
	for i := range s.gateways {
		g := s.gateways[(first+i)%len(s.gateways)]
		out := r.Clone(r.Context())
		out.URL.Host, out.Body = g.addr, io.NopCloser(bytes.NewReader(body))
		var resp *http.Response
		var failed *net.OpError
		resp, err = s.base.RoundTrip(out)
		if err == nil || !errors.As(err, &failed) || failed.Op != "dial" {
			s.last.Store(g)
			return resp, err
		}
	}
	return nil, err
}

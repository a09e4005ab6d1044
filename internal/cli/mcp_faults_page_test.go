package cli

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

const faultsHead = `# MCP under faults

The [official conformance suite](https://github.com/modelcontextprotocol/conformance) requires these scenarios of
servers. ` + "`make mcp-faults`" + ` runs each of them at three replicas of the gateway with one Redis. Behind these
are two replicas of the server for the suite that MCP's Go SDK has. A load balancer sends each request to the next
replica of the gateway, and to another one if that accepts no connection. The command writes this page.

- **A replica is killed**: before each message in turn, the replica of the gateway that got the last one. It starts
  again after the scenario.
- **A server is killed**: before each message in turn, the server that got the last request, with its sessions. It
  starts again after the scenario.
- **Redis is frozen** by a stop signal before each message in turn, until the scenario ends and for at least five
  seconds.

A scenario "passes" if it passes with the fault at each place. Otherwise its messages got the given errors, and no
others: ` + "`" + brokenOff + "`" + ` means that a response ended with its replica, and each other one is a
[reason](../errors.md). In no run did a server get a call of a tool twice.

` + "`" + changesTools + "`" + ` is not here: it changes the tools of one of the two servers, which must have the same.
`

// writeFaults writes the page.
func writeFaults(t *testing.T, cells map[[3]string]cell) {
	t.Helper()
	var text bytes.Buffer
	text.WriteString(faultsHead)
	faults := mcpFaults()
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		fmt.Fprintf(&text, "\n## Revision %s\n\n| scenario | messages |", revision)
		for _, of := range faults {
			fmt.Fprintf(&text, " %s |", of.name)
		}
		text.WriteString("\n|---|---|" + strings.Repeat("---|", len(faults)) + "\n")
		for _, scenario := range passingScenarios(t, revision) {
			row := cells[[3]string{revision, scenario, faults[0].name}]
			fmt.Fprintf(&text, "| %s | %d |", scenario, row.messages)
			for _, of := range faults {
				fmt.Fprintf(&text, " %s |", cells[[3]string{revision, scenario, of.name}])
			}
			text.WriteString("\n")
		}
		if out := failingScenarios(t, revision); len(out) > 0 {
			slices.Sort(out)
			names := strings.Join(slices.Compact(out), ", ")
			fmt.Fprintf(&text, "\nNot here, because they fail without faults: %s.\n", names)
		}
	}
	check.Must(t, os.WriteFile(*faultsPage, text.Bytes(), 0o644)) //nolint:gosec // a page of the documentation
}

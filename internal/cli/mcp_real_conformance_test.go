package cli

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestMCPConformance: the official suite passes at /mcp of three gateways in front of the everything-server of MCP's Go
// SDK. Each gateway gets every third request. Scenarios that the suite does not require run too.
// testdata/mcp names each failing scenario with its reason; a named scenario that passes is an error.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			c := startBackends(t, 0)
			server := net.JoinHostPort(c.host, "20001")
			startEverything(t, server, revision)
			s := startSuite(t, c, patientRedis(c.redis.URL()), 20*time.Second, server)
			failures, err := filepath.Abs(filepath.Join("testdata", "mcp", revision+".yaml"))
			check.Must(t, err)
			out, err := conformance(t, 10, "server", "--url", balance(t, s.spread)+"/mcp", "--requirements", revision,
				"--expected-failures", failures).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			named := readExceptions(t, failures)
			for _, scenario := range append(requirements(t, revision).further("server"), "tools-call-image") {
				if strings.HasPrefix(scenario, tasksScenarios) { // they need other tools
					continue
				}
				passes := strings.Contains(string(out), "✓ "+scenario+":")
				if reason, fails := named.Reasons[scenario]; passes == fails {
					t.Errorf("%s passes: %t; its reason to fail: %q\n%s", scenario, passes, reason, out)
				}
			}
		})
	}
}

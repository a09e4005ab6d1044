package cli

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestMCPSessionsOfReplicas: gateways with one Redis continue one session at a published server that keeps state in its
// sessions, also after one has stopped and another was killed. A replica that has listed no tools runs one that
// requires a task.
func TestMCPSessionsOfReplicas(t *testing.T) {
	t.Parallel()
	_, everything := nodeServer(t, "@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp")
	config := writeConfig(t, mcpConfig(patientRedis(redistest.Start(t).URL()),
		mcpFleet("everything", everything, "name: none", "mcp_server: {sessions: shared}")))
	const tool = "toggle-simulated-logging"
	next := func() (p *program, public string) {
		p, public, _ = serve(t, nil, "--config", config)
		waitTools(t, public, tool)
		return p, public
	}
	session := ""
	toggle := func(public, want string) {
		t.Helper()
		got := askMCP(t, public, "tools/call", `{"name":"`+tool+`","arguments":{}}`)
		_, text, found := strings.Cut(got, want+" simulated")
		_, text, _ = strings.Cut(text, "for session ")
		if id, _, _ := strings.Cut(strings.Fields(text + " -")[0], `"`); !found || session != "" && id != session {
			t.Errorf("%s: want %q in session %s", got, want, session)
		} else {
			session = id
		}
	}
	stopping, one := next()
	dying, two := next()
	toggle(one, "Started")
	toggle(two, "Stopped")
	toggle(one, "Started")
	stopping.stop(t)
	toggle(two, "Stopped")
	_, three := next()
	toggle(three, "Started")
	(realTool{"simulate-research-query", `{"topic":"x"}`, "Research Report: x"}).check(t, three)
	check.Must(t, dying.cmd.Process.Kill())
	check.Received(t, dying.exited, "the end of the process")
	toggle(three, "Stopped")
	if session == "-" {
		t.Error("the server named no session")
	}
}

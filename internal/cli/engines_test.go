package cli

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestEnginesCommand talks with the engine of the demo.
func TestEnginesCommand(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "demo", "--openparallax", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	addr, _ := addresses(p.stdout.wait(t, p, "Stop with Ctrl-C.\n"))
	engines := func(args ...string) (exit int, stdout, stderr string) {
		return runProgram(t, nil, append([]string{"engines", "--addr", addr}, args...)...)
	}
	var exit int
	var stdout, stderr string
	check.Until(t, "the agent", func() (bool, string) {
		exit, stdout, stderr = engines("send", "engine-1", "hello there", "--session", "s1")
		return !strings.Contains(stderr, "AGENT_UNAVAILABLE"), stderr
	})
	if exit != 0 || stdout != "You said: hello there\n" || stderr != "" {
		t.Errorf("send: %d %q %q", exit, stdout, stderr)
	}
	for _, tt := range []struct {
		args           []string
		exit           int
		stdout, stderr string // parts
	}{
		{[]string{"list"}, 0, "engine-1\n", ""},
		{[]string{"status", "engine-1"}, 0, "agent     Atlas\n", ""},
		{[]string{"send", "engine-1", "tool: read_file {\"path\":\"a.txt\"}", "--session", "s2"}, 0,
			"what a.txt says\n", "[read_file "},
		{[]string{"send", "engine-1", "hello", "--session", "s3", "--mode", "OTR"}, 0, "You said: hello\n", ""},
		{[]string{"send", "engine-1", "fail"}, exitRefused, "\n",
			"capgate engines send: the engine failed: the model does not answer (LLM_CALL_FAILED)\n"},
		{[]string{"sessions", "engine-1"}, 0, "NORMAL  ", ""},
		{[]string{"history", "engine-1", "s1"}, 0, "assistant: You said: hello there\n", ""},
		{[]string{"history", "engine-1", "s3"}, 0, "", ""},
		{[]string{"status", "weather"}, exitRefused, "",
			"the fleet does not consist of OpenParallax engines; set protocol: openparallax in its configuration " +
				"(ENGINE_UNKNOWN)\n"},
		{[]string{"status", "absent"}, exitRefused, "", "(CAPABILITY_UNKNOWN)\n"},
		{[]string{"send", "engine-1", "hello", "--mode", "otr"}, exitUsage, "",
			`--mode "otr": want NORMAL, OTR or HEARTBEAT`},
		{[]string{"send", "engine-1"}, exitUsage, "",
			"MESSAGE is missing; write capgate engines send ENGINE MESSAGE\nTry: capgate engines send -h\n"},
		{[]string{"status", "engine-1", "--key-file", "/nowhere"}, exitUsage, "", "--key-file: "},
		{[]string{"list", "--addr", gatewaytest.Unreachable(t)}, exitUnreachable, "",
			"the gateway cannot be reached: "},
		{[]string{"-h"}, 0, "Usage: capgate engines COMMAND", ""},
	} {
		exit, stdout, stderr := engines(tt.args...)
		if exit != tt.exit || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) ||
			tt.stderr == "" && stderr != "" {
			t.Errorf("%q: %d\n%s\n%s", tt.args, exit, stdout, stderr)
		}
	}
}

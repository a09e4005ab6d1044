package cli

import (
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// The demo's commands for the engine work as soon as its agent is connected, and the agent ends with the demo.
func TestDemoOfAnEngine(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "demo", "--openparallax", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	greeting := p.stdout.wait(t, p, "Stop with Ctrl-C.\n")
	_, lines, _ := strings.Cut(greeting, `engine "engine-1"`)
	var ran []string
	for _, command := range commandsIn(lines) {
		var output string
		var exit int
		check.Until(t, "the agent", func() (bool, string) {
			output, exit = shell(t, command)
			return !strings.Contains(output, "AGENT_UNAVAILABLE"), output
		})
		ran = append(ran, command)
		if exit != 0 || !strings.Contains(output, "what a.txt says") {
			t.Errorf("%s\nexit status %d, prints %s", command, exit, output)
		}
	}
	if len(ran) != 2 {
		t.Errorf("ran %q of:\n%s", ran, greeting)
	}
	p.signal(t, syscall.SIGINT)
	if exit := p.wait(t); exit != 0 {
		t.Errorf("exit status %d after Ctrl-C", exit)
	}
	if log := p.stderr.String(); strings.Contains(log, "capgate demo:") {
		t.Error(log)
	}
}

package console_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
)

// places: the page of a fleet has its name as its heading and the length of time of its charts in its address. A fleet
// that does not exist has no charts, and nor has a tool; a backend that was removed keeps those of its calls. The box
// that finds everything finds each kind, exact names first.
func places(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	var saw struct {
		Wrong                     []string
		Pressed, Address, Heading string
		Charts, ToolCharts        int
		RemovedCharts             int // of a backend that was measured
		Kinds, Approval           []string
	}
	b.Run(t, "places", map[string]any{"origins": []string{startFake(t, nil)}}, &saw)
	if saw.Pressed != "24 hours" || saw.Address != "#/fleets/mail?span=7d" {
		t.Errorf("%q is pressed; then the address is %s", saw.Pressed, saw.Address)
	}
	if saw.Heading != "nope" || saw.Charts != 0 {
		t.Errorf("heading %q, %d charts of a fleet that does not exist", saw.Heading, saw.Charts)
	}
	if saw.RemovedCharts != 1 {
		t.Errorf("%d cards of charts of a backend that was removed", saw.RemovedCharts)
	}
	if got := strings.Join(saw.Kinds, " "); got != "User Key Approval Agent Tool Toolset Tenant Call Trace" ||
		saw.ToolCharts != 0 {
		t.Errorf("found %s; %d charts of a tool that does not exist", got, saw.ToolCharts)
	}
	if len(saw.Approval) == 0 || saw.Approval[0] != "Approval" {
		t.Errorf("found %v by the id of an approval", saw.Approval)
	}
	for _, w := range saw.Wrong {
		t.Error(w)
	}
}

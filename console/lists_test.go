package console_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
)

// lists: 500 fleets of 50 backends and 5,000 tools are found, shared, saved and looked through.
func lists(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	var saw struct {
		Wrong, Files                                            []string
		Down, About, Address, Shared, Back, ToolsAbout, Retried string
		Defused, Arrow, Found                                   string
		Usable, Past, Blocked                                   string
		Sorted, Waiting                                         []string
		InSight, Kept, Curl                                     bool
		FleetNodes, NodesAtEnd, ToolNodes, More, Create         int
		Idle, Fleets, Tools                                     float64 // of a core, and seconds of it
		Rows                                                    []int
		Off                                                     []any
	}
	b.Run(t, "lists", map[string]any{"origins": []string{startFake(t, nil)}}, &saw)
	t.Logf("fleets take %.2f s with %d elements, tools %.2f s with %d; idle %.2f%% of a core", saw.Fleets,
		saw.FleetNodes, saw.Tools, saw.ToolNodes, 100*saw.Idle)
	if saw.Fleets > 1 || saw.Tools > 1 {
		t.Error("a screen takes more than a second")
	}
	for _, w := range saw.Wrong {
		t.Error(w)
	}
	if !strings.HasPrefix(saw.Down, "10.0.0.1:1 down connection refused 4 min") || !saw.InSight || saw.More == 0 ||
		!strings.HasPrefix(saw.About, "500 fleets, as the replica gw sees them · 1 backend fails") {
		t.Errorf("%q, in sight %v, %q", saw.Down, saw.InSight, saw.About)
	}
	for what, n := range map[string]int{"fleets": saw.FleetNodes, "the end of the fleets": saw.NodesAtEnd,
		"tools": saw.ToolNodes} {
		if n < 100 || n > mostNodes {
			t.Errorf("%s have %d elements", what, n)
		}
	}
	if saw.Idle > 0.02 || saw.Idle <= 0 {
		t.Errorf("%.2f%% of a core", 100*saw.Idle)
	}
	if !strings.HasPrefix(saw.Found, "10 fleets match, ") || saw.Address != "#/fleets?query=C49" ||
		saw.Shared != "C49" || saw.Back != "" ||
		saw.ToolsAbout != "1 tool" {
		t.Errorf("%q; %q, shared as %q, %q after back; %q", saw.Found, saw.Address, saw.Shared, saw.Back,
			saw.ToolsAbout)
	}
	if saw.Retried != "/v1/webhooks/dead:retry" || !slices.Equal(saw.Files, []string{"audit.csv", "audit.json"}) ||
		!slices.Equal(saw.Rows, []int{251, 250}) || !strings.Contains(saw.Defused, `"'=HYPERLINK(""http://evil""`) {
		t.Errorf("%q, %q, %v rows, the last %q", saw.Retried, saw.Files, saw.Rows, saw.Defused)
	}
	if saw.Blocked != "#/tools?policy=block" {
		t.Error(saw.Blocked)
	}
	if saw.Usable != "Tools for callers (100+)" || saw.Past != "#/calls?query=req-of-last-week&when=7d" ||
		!slices.Equal(saw.Sorted, []string{"#/audit?sort=Who", "ascending", "#/audit?sort=-Who", "descending",
			"#/audit?sort=-Who"}) ||
		len(saw.Waiting) == 0 || slices.ContainsFunc(saw.Waiting, func(s string) bool { return s != "pending" }) {
		t.Errorf("%q; %q; %q; %q", saw.Usable, saw.Past, saw.Sorted, saw.Waiting)
	}
	if !saw.Kept || !saw.Curl || saw.Arrow != "Matrix" || saw.Create != 0 || len(saw.Off) != 2 ||
		saw.Off[0] != float64(0) || saw.Off[1] != "#/policies" {
		t.Errorf("%+v", saw)
	}
}

package console_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
)

// lookAtLimits checks that a tenant near a limit is one click from the start, and that each cell of the matrix is one
// click from its explanation, also in a matrix of 300 tools and 50 callers.
func lookAtLimits(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	var saw struct {
		Near     string
		Clicks   int
		Bars     int
		Address  string // of 30 days
		Days     int    // of 30
		Cells    int
		Nodes    int
		Wide     bool   // the matrix scrolls, and the page does not
		Shared   string // the address of a search
		Explain  string // the address of a cell's explanation
		Decision string
		Choose   string // without a tenant
		Wrong    []string
	}
	b.Run(t, "limits", map[string]any{"origins": []string{startFake(t, nil)}}, &saw)
	for _, w := range saw.Wrong {
		t.Error(w)
	}
	if !strings.Contains(saw.Near, "86% of today's calls are used: 8,600 of 10,000") || saw.Clicks != 1 {
		t.Errorf("near a limit after %d clicks: %q", saw.Clicks, saw.Near)
	}
	if saw.Bars != 14 || !strings.Contains(saw.Address, "days=30") || saw.Days != 300 {
		t.Errorf("%d bars of 7 days; %q is %d wide", saw.Bars, saw.Address, saw.Days)
	}
	if saw.Cells == 0 || saw.Nodes > 20_000 || !saw.Wide {
		t.Errorf("%d cells, %d nodes, wide %t", saw.Cells, saw.Nodes, saw.Wide)
	}
	if !strings.Contains(saw.Shared, "query=tool_029") || !strings.Contains(saw.Shared, "tenant=acme") ||
		!strings.Contains(saw.Shared, "capability=mail") {
		t.Errorf("a search is at %q", saw.Shared)
	}
	for _, part := range []string{"tenant%3Dacme", "user%3Duser07", "capability%3Dmail", "tool%3Dtool_0299"} {
		if !strings.Contains(saw.Explain, part) {
			t.Errorf("the explanation at %q lacks %s", saw.Explain, part)
		}
	}
	if !strings.Contains(saw.Decision, "Decision: ask") || !strings.Contains(saw.Choose, "Choose a tenant") {
		t.Errorf("decision %q; without a tenant %q", saw.Decision, saw.Choose)
	}
}

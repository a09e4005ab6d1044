package cli

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestPolicyMatrix: each tool has a row, with the decision for any caller and for each that rules name. A rule's tool
// that the capability does not list is marked, and names from rules cannot write to the terminal.
func TestPolicyMatrix(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	_, _, admin := serve(t, nil, "--config", writeConfig(t, configOf("policies: {}", backend)))
	matrix := func(args ...string) (string, string) {
		t.Helper()
		exit, out, errs := capgatePolicy(t, admin, append([]string{"matrix"}, args...)...)
		if exit != 0 {
			t.Fatalf("%d %s%s", exit, out, errs)
		}
		return out, errs
	}
	if out, _ := matrix("caps"); out != "no tools\n" {
		t.Errorf("without tools: %q", out)
	}
	for _, rule := range [][]string{{"later", "ask"}, {"later", "block", "--user", "ann"},
		{"sooner", "allow", "--user", "ann\x1b[31m"}, {"later", "allow", "--agent", "bot"}} {
		args := append([]string{"set", "caps"}, append(rule, "--force")...)
		if exit, out, errs := capgatePolicy(t, admin, args...); exit != 0 {
			t.Fatalf("%d %s%s", exit, out, errs)
		}
	}
	out, _ := matrix("caps")
	rows := strings.Split(strings.TrimSpace(out), "\n")
	if len(rows) != 3 || strings.Contains(out, "\x1b") {
		t.Fatalf("%q", out)
	}
	cells := func(of string) map[string]string {
		at := map[string]string{}
		names := splitCells(rows[0])
		for _, row := range rows[1:] {
			if c := splitCells(row); c[0] == of {
				for i, name := range names {
					at[name] = c[i]
				}
			}
		}
		return at
	}
	if of := cells("later *"); of["any caller"] != "ask" || of["user ann"] != "block" || of["agent bot"] != "allow" {
		t.Errorf("later: %v of\n%s", of, out)
	}
	if of := cells("sooner *"); of["any caller"] != "allow" || of["user ann"] != "allow" || len(of) != 5 {
		t.Errorf("sooner: %v of\n%s", of, out)
	}
	if out, _ := matrix("caps", "--query", "soon", "--caller", "bot"); strings.Contains(out, "later") ||
		strings.Contains(out, "ann") || !strings.Contains(out, "agent bot") {
		t.Errorf("with filters:\n%s", out)
	}
	exit, _, errs := capgatePolicy(t, admin, "matrix", "cups")
	if exit == 0 || !strings.Contains(errs, `did you mean "caps"`) {
		t.Errorf("an unknown capability: %d %s", exit, errs)
	}
}

// splitCells returns the cells of a row of a table.
func splitCells(row string) (cells []string) {
	for c := range strings.SplitSeq(row, "  ") {
		if c = strings.TrimSpace(c); c != "" {
			cells = append(cells, c)
		}
	}
	return cells
}

// TestPolicyMatrixOfOtherCallers: if a page has other callers than the one before, each decision is in the column of
// its caller. Names of callers that print alike have columns of their own.
func TestPolicyMatrixOfOtherCallers(t *testing.T) {
	t.Parallel()
	type decision = capgatepb.ListDecisionsResponse_Decision
	var out strings.Builder
	c := &policyMatrix{output: output{stdio: stdio{out: &out, err: &out}}}
	c.print(&out, &capgatepb.ListDecisionsResponse{Callers: 2, Decisions: []*decision{
		{Tool: "first", Policy: "allow"}, {Tool: "first", User: "ann", Policy: "block"},
		{Tool: "second", Policy: "ask"}, {Tool: "second", User: "amy", Policy: "allow"},
		{Tool: "second", User: "ann", Policy: "block"}, {Tool: "second", User: "ann ", Policy: "ask"}}})
	want := "TOOL    any caller  user ann  user amy  user ann\n" +
		"first   allow       block     -         -\n" +
		"second  ask         block     allow     ask\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

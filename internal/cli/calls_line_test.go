package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestCallsLineUp: on a terminal, the results and the times of calls begin at one column each, and no line is longer
// than the terminal. In a file, nothing is cut.
func TestCallsLineUp(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long", 20)
	calls := []*capgatepb.RecentCall{
		{User: "ann", Capability: "mail", Tool: "send", Code: "OK", RequestId: "r1"},
		{User: long, Capability: "weather", Tool: long, Code: "PERMISSION_DENIED", Reason: "POLICY_BLOCKED",
			RequestId: "0190f1c2-7a54-7c39-8d5c-0a4b1a2f3c4d"},
		{Tenant: "acme", Agent: "planner", Capability: "mail", Tool: "list", Code: "OK", Outcome: "tool_error"},
		{Key: "abcdefghijklmnop", Capability: "mail", Tool: "list", Code: "INVALID_ARGUMENT",
			Reason: strings.Repeat("REASON_", 9)},
	}
	var cells []callCells
	for i, c := range calls {
		c.Time = timestamppb.New(time.Date(2026, 11, 29, 7, 0, i, 0, time.Local))
		c.Duration = durationpb.New(time.Duration(i) * 1234 * time.Millisecond)
		cells = append(cells, cellsOf(c, "01-02 15:04:05"))
	}
	for width, whole := range map[int]bool{80: false, 120: false, 200: false, 0: true} {
		for name, l := range map[string]callLayout{"listed": layoutOf(cells, width), "followed": followed(width)} {
			starts := map[int]bool{}
			for i := range cells {
				var b strings.Builder
				l.print(&b, &cells[i], false)
				line := strings.TrimRight(b.String(), "\n")
				if n := utf8.RuneCountInString(line); width > 0 && n > width &&
					(name == "listed" || n > width+len("01-02 ")) {
					t.Errorf("%s in %d columns: %d: %s", name, width, n, line)
				}
				if at := strings.LastIndex(line, cells[i].took); width > 0 {
					starts[utf8.RuneCountInString(line[:at])] = true
				}
				if whole && !strings.Contains(line, cells[i].tool) {
					t.Errorf("cut: %s", line)
				}
			}
			if len(starts) > 1 {
				t.Errorf("%s in %d columns: times begin at %v", name, width, starts)
			}
		}
	}
}

// TestCallsThatAwaitApprovalAreNotRed: calls that wait for approval are not shown as failures.
func TestCallsThatAwaitApprovalAreNotRed(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"APPROVAL_REQUIRED": yellow, "APPROVAL_PENDING": yellow,
		"POLICY_BLOCKED": red, "": green} {
		if got := cellsOf(&capgatepb.RecentCall{Code: "OK", Reason: reason}, "15:04:05").tint; got != want {
			t.Errorf("%q: %q", reason, got)
		}
	}
}

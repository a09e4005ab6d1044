package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestApprovalsHistory: approvals that have ended are listed and counted, also after they were deleted.
func TestApprovalsHistory(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("first")
	file := writeConfig(t, strings.Replace(configOf("policies: {}\n", capability.Serve(t, call.Doc).Addr),
		"policy: allow", "policy: ask", 1))
	_, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	run := func(want int, args ...string) string {
		t.Helper()
		exit, stdout, stderr := capgateApprovals(t, admin, args...)
		if exit != want {
			t.Errorf("%s: exit status %d: %s", args, exit, stderr)
		}
		return stdout
	}
	for n, verb := range []string{"approve", "deny", "deny"} {
		id := asked(t, client, fmt.Sprint("user-", n), `{"secret":1}`)
		run(0, verb, id, "--by", "eve", "--comment", "said "+verb)
	}
	if text := run(0, "history"); strings.Count(text, "\n") != 4 || !strings.HasPrefix(text, "ENDED") ||
		strings.Index(text, "user-2") > strings.Index(text, "user-0") || strings.Contains(text, "secret") {
		t.Errorf("%s", text)
	}
	if text := run(0, "history", "--outcome", "denied", "--answered-by", "eve", "-n", "1"); strings.Count(text,
		"\n") != 2 || !strings.Contains(text, "said deny") {
		t.Errorf("%s", text)
	}
	found := run(0, "history", "-o", "json", "--query", "said approve")
	if !strings.Contains(found, `"user": "user-0"`) || strings.Contains(found, "user-1") {
		t.Errorf("%s", found)
	}
	statistics := run(0, "history", "--statistics")
	for _, want := range []string{"all", "67%", "ANSWERED BY", "eve", gatewaytest.Echo} {
		if !strings.Contains(statistics, want) {
			t.Errorf("no %s in %s", want, statistics)
		}
	}
	if text := run(0, "history", "--statistics", "-o", "json"); !strings.Contains(text, `"denied": 2`) {
		t.Errorf("%s", text)
	}
	run(exitUsage, "history", "--since", "-1h")
	run(exitUsage, "history", "-n", "0")
}

// pastPages has two pages of approvals that have ended, the first of them incomplete.
type pastPages struct {
	grpc.ClientConnInterface
}

func (pastPages) Invoke(_ context.Context, _ string, req, resp any, _ ...grpc.CallOption) error {
	page := &capgatepb.ListPastApprovalsResponse{Approvals: []*capgatepb.PastApproval{{Tool: "send"}}}
	if req.(*capgatepb.ListPastApprovalsRequest).GetPageToken() == "" {
		page.Incomplete, page.NextPageToken = true, "next"
	}
	proto.Merge(resp.(proto.Message), page)
	return nil
}

// TestAnIncompletePageIsSaid: a list says that it is not complete if one of its pages is not.
func TestAnIncompletePageIsSaid(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	std := stdio{out: &out, err: &errs}
	c := &approvalsHistory{output: output{stdio: std}, filter: new(capgatepb.ListPastApprovalsRequest), most: 50,
		since: time.Hour}
	command := &cobra.Command{}
	command.SetContext(t.Context())
	check.Must(t, c.run(command, pastPages{}, nil))
	if strings.Count(out.String(), "send") != 2 || !strings.Contains(out.String(), `"incomplete": true`) {
		t.Errorf("%s%s", out.String(), errs.String())
	}
}

// TestApprovalsHistoryFits: lists fit a terminal of 80 columns.
func TestApprovalsHistoryFits(t *testing.T) {
	t.Parallel()
	c := &approvalsHistory{output: output{stdio: stdio{out: openTerminal(t, 80), err: io.Discard}}}
	long := strings.Repeat("a-long-name", 5)
	counts := &capgatepb.ApprovalCounts{Approved: 12345, Denied: 3, Expired: 4, P50: durationpb.New(time.Hour)}
	var b strings.Builder
	c.print(&b, &capgatepb.ListPastApprovalsResponse{Approvals: []*capgatepb.PastApproval{{Id: long, Tenant: "acme",
		User: "ann@example.com", Agent: "planner", Capability: "mail", Tool: "send_mail_to_all", Outcome: "withdrawn",
		AnsweredBy: "bob@example.com", Comment: long}}})
	c.printStatistics(&b, &capgatepb.ApprovalStatistics{All: counts,
		Tools:  []*capgatepb.ApprovalStatistics_Tool{{Capability: long, Tool: long, Counts: counts}},
		People: []*capgatepb.ApprovalStatistics_Person{{Name: long, Counts: counts}}})
	tints := strings.NewReplacer(bold, "", green, "", red, "", yellow, "", plain, "")
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(strings.TrimRight(tints.Replace(line), "\n")) > 80 {
			t.Errorf("more than 80 columns: %q", line)
		}
	}
	if !strings.Contains(b.String(), "12345") || !strings.Contains(b.String(), "withdrawn") {
		t.Error(b.String())
	}
}

package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const approvalsHistoryHelp = `It lists approvals that were answered, expired or were withdrawn in the last 30 days,
the newest first. They have no arguments. --statistics counts them, with the time to answer, by tool
and by approver. Days are counted as a whole, in UTC.`

// approvalsHistory is the command line of capgate approvals history.
type approvalsHistory struct {
	output
	filter     *capgatepb.ListPastApprovalsRequest
	most       int
	since      time.Duration
	statistics bool
}

func newApprovalsHistory(std stdio) *cobra.Command {
	c := &approvalsHistory{output: output{stdio: std}, filter: new(capgatepb.ListPastApprovalsRequest)}
	command := overAdmin("history", "list approvals of the last 30 days, and count them", requestTimeout, c.run,
		c.flags, c.addFlags)
	command.Long = approvalsHistoryHelp
	return command
}

func (c *approvalsHistory) flags(fs *pflag.FlagSet) {
	f := c.filter
	fs.BoolVar(&c.statistics, "statistics", false, "print how many were answered, how fast and by whom")
	fs.IntVarP(&c.most, "lines", "n", 50, "maximum number of `approvals`")
	fs.DurationVar(&c.since, "since", 720*time.Hour, "only approvals that ended in this `time`")
	fs.StringVar(&f.Tenant, "tenant", "", "`name` of the tenant; default all")
	fs.StringVar(&f.Outcome, "outcome", "", "only this `outcome`: approved, denied, expired or withdrawn")
	fs.StringVar(&f.AnsweredBy, "answered-by", "", "only answers of people with this `name` or a part of it")
	addSubjectFlags(fs, &f.User, &f.Agent, &f.Capability, &f.Tool)
	fs.StringVar(&f.Query, "query", "", "only approvals with these `words` in a text, such as a comment or an id")
}

func (c *approvalsHistory) run(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	switch {
	case c.since <= 0:
		return usageError("--since: want a time such as 24h")
	case c.most <= 0:
		return usageError("--lines: want 1 or more")
	}
	client := capgatepb.NewApprovalsClient(conn)
	c.filter.StartTime = timestamppb.New(time.Now().Add(-c.since))
	if c.statistics {
		r, err := client.GetApprovalStatistics(cmd.Context(), &capgatepb.GetApprovalStatisticsRequest{
			Tenant: c.filter.GetTenant(), StartTime: c.filter.GetStartTime()})
		return c.result(r.GetStatistics(), err, func(w io.Writer) { c.printStatistics(w, r.GetStatistics()) })
	}
	all := new(capgatepb.ListPastApprovalsResponse)
	err := pages(func(token string) (string, error) {
		c.filter.PageToken = token
		c.filter.PageSize = int32(min(c.most-len(all.GetApprovals()), 500)) //nolint:gosec // small
		page, err := client.ListPastApprovals(cmd.Context(), c.filter)
		all.Approvals = append(all.Approvals, page.GetApprovals()...)
		all.Incomplete = all.Incomplete || page.GetIncomplete()
		if all.NextPageToken = page.GetNextPageToken(); len(all.GetApprovals()) >= c.most {
			return "", err
		}
		return page.GetNextPageToken(), err
	})
	return c.result(all, err, func(w io.Writer) { c.print(w, all) })
}

func (c *approvalsHistory) print(w io.Writer, all *capgatepb.ListPastApprovalsResponse) {
	t := newTable("ENDED", "OUTCOME", "TOOL", "USER", "AGENT", "TOOK", "ANSWERED BY", "COMMENT", "CAPABILITY", "TENANT",
		"ID").on(c.out, "no approvals have ended", "ID", "TENANT", "CAPABILITY", "AGENT", "COMMENT")
	for _, p := range all.GetApprovals() {
		t.row(ageOf(p.GetEndTime()), p.GetOutcome(), p.GetTool(), p.GetUser(), p.GetAgent(),
			took(p.GetAnswerDuration()), p.GetAnsweredBy(), untrusted.Beginning(p.GetComment(), maxWhy),
			p.GetCapability(), p.GetTenant(), p.GetId())
	}
	t.print(w)
	if all.GetNextPageToken() != "" {
		fmt.Fprintln(c.err, "capgate approvals history: there are more; --lines or a filter selects others")
	}
	c.warn(all.GetIncomplete())
}

func (c *approvalsHistory) printStatistics(w io.Writer, s *capgatepb.ApprovalStatistics) {
	row := func(t *table, n *capgatepb.ApprovalCounts, names ...any) {
		share := "-"
		if n.DeniedShare != nil {
			share = fmt.Sprintf("%.0f%%", 100*n.GetDeniedShare())
		}
		t.row(append(names, n.GetApproved(), n.GetDenied(), share, n.GetExpired(), n.GetWithdrawn(), took(n.GetP50()),
			took(n.GetP90()))...)
	}
	counts := []string{"APPROVED", "DENIED", "SHARE", "EXPIRED", "WITHDRAWN", "P50", "P90"}
	t := newTable(append([]string{"TOOL"}, counts...)...).on(c.out, "")
	row(t, s.GetAll(), "all")
	for _, tool := range s.GetTools() {
		name := untrusted.Word(tool.GetCapability()) + "." + untrusted.Word(tool.GetTool())
		if tool.GetOthers() {
			name = "others"
		}
		row(t, tool.GetCounts(), name)
	}
	t.print(w)
	if len(s.GetPeople()) > 0 {
		fmt.Fprintln(w)
		people := newTable("ANSWERED BY", "APPROVED", "DENIED", "SHARE", "P50", "P90").on(c.out, "")
		for _, p := range s.GetPeople() {
			name, n := p.GetName(), p.GetCounts()
			if p.GetOthers() {
				name = "others"
			}
			people.row(name, n.GetApproved(), n.GetDenied(), fmt.Sprintf("%.0f%%", 100*n.GetDeniedShare()),
				took(n.GetP50()), took(n.GetP90()))
		}
		people.print(w)
	}
	c.warn(s.GetIncomplete())
}

// warn says that not all tenants or approvals are in the result.
func (c *approvalsHistory) warn(incomplete bool) {
	if incomplete {
		fmt.Fprintln(c.err, "capgate approvals history: the list is incomplete; name a tenant, or a shorter "+
			"time")
	}
}

// took returns a time to an answer; "-": there is none.
func took(d *durationpb.Duration) string {
	if d == nil {
		return "-"
	}
	return short(d.AsDuration())
}

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const approvalsUsage = `Usage: capgate approvals list [flags]
       capgate approvals show ID [flags]
       capgate approvals approve ID [flags]
       capgate approvals deny ID [flags]
       capgate approvals watch [flags]

Lists calls that need a person's approval, and approves or denies them. An approved call runs
once, when its caller repeats it with the approval's ID. watch prints events until Ctrl-C, and
reconnects if the connection is lost.

--remember sets the calls that an answer applies to: the call itself; with "session", calls of
the tool in the same session; with "always", calls of the tool by the same user and agent, as a
policy rule.

In a gateway with tenants, the command covers all of them; --tenant selects one.

Exit status: 0 on success; 1 if the gateway rejected the request; 2 for a wrong command line;
3 if the gateway could not be reached.

Flags:
`

// anyState is the value of --state without a filter. By default, list shows the approvals that can be answered.
const anyState = "all"

// approvalsCommand is the command line of capgate approvals.
type approvalsCommand struct {
	filter                *capgatepb.ListApprovalsRequest
	id                    string
	by, comment, remember string
	old                   bool
	client                capgatepb.ApprovalsClient
	out, err              io.Writer
}

func runApprovals(ctx context.Context, args []string, std stdio) int {
	c := approvalsCommand{filter: &capgatepb.ListApprovalsRequest{}, out: std.out, err: std.err}
	fs := flag.NewFlagSet("approvals", flag.ContinueOnError)
	c.addFlags(fs)
	calls, answer := []string{"tenant", "user", "agent", "capability", "tool"},
		[]string{"tenant", "comment", "remember", "by"}
	all := verbs{
		flags: fs, usage: approvalsUsage,
		all: []verb{
			{name: "list", run: soon(c.list), takes: append(calls, "state")},
			{name: "show", words: 1, run: soon(c.show), takes: []string{"tenant"}},
			{name: "approve", words: 1, run: soon(c.approve), takes: answer},
			{name: "deny", words: 1, run: soon(c.deny), takes: answer},
			{name: "watch", run: c.watch, takes: append(calls, "old")},
		},
		take: c.take, dial: func(conn grpc.ClientConnInterface) { c.client = capgatepb.NewApprovalsClient(conn) },
	}
	return all.run(ctx, args, std)
}

func (c *approvalsCommand) addFlags(fs *flag.FlagSet) {
	f := c.filter
	fs.StringVar(&f.Tenant, "tenant", "", "`name` of the tenant; default all")
	fs.StringVar(&f.State, "state", "pending",
		"list only approvals in this `state`: pending, approved, denied, expired, used, or all")
	fs.StringVar(&f.User, "user", "", "list and watch only calls of the user with this `name`")
	fs.StringVar(&f.Agent, "agent", "", "only calls of the agent with this `name`")
	fs.StringVar(&f.Capability, "capability", "", "only calls of the capability with this `id`")
	fs.StringVar(&f.Tool, "tool", "", "only calls of the tool with this `name`")
	fs.StringVar(&c.comment, "comment", "", "`text` to store with the answer")
	fs.StringVar(&c.remember, "remember", "call", "`scope` of the answer: call, session or always")
	fs.StringVar(&c.by, "by", login(), "`name` of the approver, stored with the answer; it is not verified")
	fs.BoolVar(&c.old, "old", false, "watch: begin with the oldest stored event")
}

// login returns the login name of the user.
func login() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func (c *approvalsCommand) take(_ string, words []string) error {
	if len(words) > 0 {
		c.id = words[0]
	}
	if c.filter.GetState() == anyState {
		c.filter.State = ""
	}
	return nil
}

// list prints every approval that the filter selects, the newest first.
func (c *approvalsCommand) list(ctx context.Context) error {
	var all []*capgatepb.Approval
	for c.filter.PageSize = 100; ; {
		page, err := c.client.ListApprovals(ctx, c.filter)
		if err != nil {
			return err
		}
		all = append(all, page.GetApprovals()...)
		if c.filter.PageToken = page.GetNextPageToken(); c.filter.GetPageToken() == "" {
			break
		}
	}
	// approvals of several tenants arrive one tenant after the other
	slices.SortStableFunc(all, func(a, b *capgatepb.Approval) int {
		return b.GetCreateTime().AsTime().Compare(a.GetCreateTime().AsTime())
	})
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tUSER\tAGENT\tCAPABILITY\tTOOL\tCREATED\tEXPIRES\tTENANT")
	for _, a := range all {
		fmt.Fprintln(table, strings.Join([]string{a.GetId(), a.GetState(), word(a.GetUser()), word(a.GetAgent()),
			word(a.GetCapability()), word(a.GetTool()),
			when(a.GetCreateTime()), when(a.GetExpireTime()), word(a.GetTenant())}, "\t"))
	}
	return table.Flush()
}

// show prints the approval with its arguments.
func (c *approvalsCommand) show(ctx context.Context) error {
	r, err := c.client.GetApproval(ctx, &capgatepb.GetApprovalRequest{Tenant: c.filter.GetTenant(), ApprovalId: c.id})
	if err != nil {
		return err
	}
	a := r.GetApproval()
	fmt.Fprintf(c.out, "%s: %s\n\n", a.GetId(), a.GetState())
	for _, line := range [][2]string{
		{"tool", word(a.GetTool()) + " of " + word(a.GetCapability())}, {"description", a.GetDescription()},
		{"user", word(a.GetUser())}, {"agent", word(a.GetAgent())}, {"tenant", word(a.GetTenant())},
		{"session", a.GetSession()},
		{"required by", a.GetLevel()}, {"reason", a.GetWhy()}, {"request id", a.GetRequestId()},
		{"created", when(a.GetCreateTime())}, {"expires", when(a.GetExpireTime())}, {"answered", answerOf(a)},
	} {
		if line[1] != "" {
			fmt.Fprintf(c.out, "%-11s %s\n", line[0], lines(line[1], 12))
		}
	}
	args := "  unavailable: the gateway does not have the key that encrypts them"
	if a.GetArguments() != "" {
		args = "  " + lines(a.GetArguments(), 2)
	}
	fmt.Fprintf(c.out, "\narguments:\n%s\n", args)
	return nil
}

func (c *approvalsCommand) approve(ctx context.Context) error {
	r, err := c.client.Approve(ctx, &capgatepb.ApproveRequest{
		Tenant: c.filter.GetTenant(), ApprovalId: c.id, By: c.by, Comment: c.comment, Remember: c.remember,
	})
	if err == nil {
		a := r.GetApproval()
		fmt.Fprintf(c.out, "approved until %s: %s%s\n", when(a.GetExpireTime()), callOf(a), holds(a))
	}
	return err
}

func (c *approvalsCommand) deny(ctx context.Context) error {
	r, err := c.client.Deny(ctx, &capgatepb.DenyRequest{
		Tenant: c.filter.GetTenant(), ApprovalId: c.id, By: c.by, Comment: c.comment, Remember: c.remember,
	})
	if err == nil {
		fmt.Fprintf(c.out, "denied: %s%s\n", callOf(r.GetApproval()), holds(r.GetApproval()))
	}
	return err
}

// callOf describes the call of an approval.
func callOf(a *capgatepb.Approval) string {
	text := word(a.GetTool()) + " of " + word(a.GetCapability())
	for _, who := range []struct{ what, name string }{{" by user ", a.GetUser()}, {" by agent ", a.GetAgent()}} {
		if who.name != "" {
			text += who.what + word(who.name)
		}
	}
	return text
}

// holds describes the further calls that an answer covers.
func holds(a *capgatepb.Approval) string {
	switch a.GetRemember() {
	case "session":
		return "; also calls of the tool in the same session"
	case "always":
		return "; also all calls of the tool by this user and agent, by a rule"
	}
	return ""
}

func answerOf(a *capgatepb.Approval) string {
	if a.GetAnswerTime() == nil {
		return ""
	}
	text := when(a.GetAnswerTime()) + " by " + word(a.GetAnsweredBy()) + ", for the " + a.GetRemember()
	if a.GetRemember() == "always" {
		text = strings.TrimSuffix(text, "the always") + "good"
	}
	if a.GetComment() != "" {
		text += ": " + a.GetComment()
	}
	return text
}

func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Format(time.RFC3339)
}

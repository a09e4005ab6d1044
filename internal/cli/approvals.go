package cli

import (
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const approvalsHelp = `An approved call runs once, when its caller repeats it with the approval's ID.

In a gateway with tenants, the command covers all of them; --tenant selects one.`

const answerHelp = `--remember sets the calls that the answer applies to: the call itself; with "session", calls of the
tool in the same session; with "always", calls of the tool by the same user and agent, as a policy
rule.

With several IDs, each is answered and reported by itself, and the exit status is not 0 if one failed.`

// anyState is the value of --state without a filter. By default, list shows the approvals that can be answered.
const anyState = "all"

// approvalsCommand is the command line of capgate approvals.
type approvalsCommand struct {
	output
	filter                *capgatepb.ListApprovalsRequest
	by, comment, remember string
	validFor              time.Duration
	old                   bool
	client                capgatepb.ApprovalsClient // of watch
}

// newApprovalsCommand returns the command capgate approvals.
func newApprovalsCommand(std stdio) *cobra.Command {
	c := &approvalsCommand{filter: &capgatepb.ListApprovalsRequest{}, output: output{stdio: std}}
	approve := overAdmin("approve ID...", "approve calls", 0, c.approve, c.tenantFlag, c.answerFlags, c.addFlags)
	deny := overAdmin("deny ID...", "deny calls", 0, c.deny, c.tenantFlag, c.answerFlags, c.addFlags)
	review := overAdmin("review", "show pending approvals one after another, and answer them", 0, c.review,
		c.tenantFlag, c.filterFlags, c.searchFlag, c.byFlag)
	review.Long = reviewHelp
	approve.Long, deny.Long = answerHelp, answerHelp
	watch := overAdmin("watch", "print events until Ctrl-C", 0, c.watch, c.tenantFlag, c.filterFlags, c.watchFlags,
		c.addFlags)
	watch.Long = "It reconnects if the connection is lost, and resumes after the last event. -o json prints a line\n" +
		"for each event."
	return parent("approvals", "list, approve and deny calls that need approval", approvalsHelp,
		overAdmin("list", "list approvals, the newest first", requestTimeout, c.list, c.tenantFlag, c.filterFlags,
			c.searchFlag, c.listFlags, c.addFlags),
		overAdmin("show ID", "show an approval with the arguments of its call", requestTimeout, c.show, c.tenantFlag,
			c.addFlags),
		approve, deny, review, newApprovalsHistory(std), watch)
}

func (c *approvalsCommand) tenantFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.filter.Tenant, "tenant", "", "`name` of the tenant; default all")
}

func (c *approvalsCommand) filterFlags(fs *pflag.FlagSet) {
	addSubjectFlags(fs, &c.filter.User, &c.filter.Agent, &c.filter.Capability, &c.filter.Tool)
}

func (c *approvalsCommand) listFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.filter.State, "state", "pending",
		"only approvals in this `state`: pending, approved, denied, expired, used, or all")
}

func (c *approvalsCommand) searchFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.filter.Text, "search", "",
		"only approvals with this `text` in user, agent, capability, tool, description, session or request id")
}

func (c *approvalsCommand) watchFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.old, "old", false, "begin with the oldest stored event")
}

func (c *approvalsCommand) answerFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.comment, "comment", "", "`text` to store with the answer")
	fs.StringVar(&c.remember, "remember", "call", "`scope` of the answer: call, session or always")
	fs.DurationVar(&c.validFor, "valid-for", 0, "`time` after which an answer for session or always ends")
	c.byFlag(fs)
}

func (c *approvalsCommand) byFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.by, "by", login(), "`name` of the approver, stored with the answer; it is not verified")
}

// login returns the login name of the user.
func login() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// list prints every approval that the filter selects, the newest first.
func (c *approvalsCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	if c.filter.GetState() == anyState {
		c.filter.State = ""
	}
	c.filter.PageSize = 100
	all := new(capgatepb.ListApprovalsResponse)
	err := pages(func(token string) (string, error) {
		c.filter.PageToken = token
		page, err := capgatepb.NewApprovalsClient(conn).ListApprovals(cmd.Context(), c.filter)
		all.Approvals = append(all.Approvals, page.GetApprovals()...)
		return page.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	// approvals of several tenants arrive one tenant after the other
	slices.SortStableFunc(all.GetApprovals(), func(a, b *capgatepb.Approval) int {
		return b.GetCreateTime().AsTime().Compare(a.GetCreateTime().AsTime())
	})
	return c.data(all, func(w io.Writer) {
		t := newTable("ID", "STATE", "USER", "AGENT", "CAPABILITY", "TOOL", "AGE", "EXPIRES", "ANSWERED BY", "TENANT").
			on(c.out, "no approvals", "ANSWERED BY", "EXPIRES", "AGENT", "TENANT")
		for _, a := range all.GetApprovals() {
			t.row(a.GetId(), stateOf(a), a.GetUser(), a.GetAgent(), a.GetCapability(), a.GetTool(),
				ageOf(a.GetCreateTime()), ends(a.GetExpireTime()), a.GetAnsweredBy(), a.GetTenant())
		}
		t.print(w)
	})
}

// show prints the approval with its arguments.
func (c *approvalsCommand) show(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	r, err := capgatepb.NewApprovalsClient(conn).GetApproval(cmd.Context(),
		&capgatepb.GetApprovalRequest{Tenant: c.filter.GetTenant(), ApprovalId: args[0]})
	if err != nil {
		return err
	}
	a := r.GetApproval()
	return c.data(a, func(w io.Writer) { describeApproval(w, a) })
}

// describeApproval prints an approval with its arguments.
func describeApproval(w io.Writer, a *capgatepb.Approval) {
	fmt.Fprintf(w, "%s: %s\n\n", a.GetId(), a.GetState())
	details(w, append([][2]string{
		{"tool", untrusted.Word(a.GetTool()) + " of " + untrusted.Word(a.GetCapability())},
		{"description", a.GetDescription()},
		{"user", untrusted.Word(a.GetUser())}, {"agent", untrusted.Word(a.GetAgent())},
		{"tenant", untrusted.Word(a.GetTenant())},
		{"session", a.GetSession()},
		{"required by", a.GetLevel()}, {"reason", a.GetWhy()}, {"request id", a.GetRequestId()},
		{"created", when(a.GetCreateTime())}, {"expires", when(a.GetExpireTime())}, {"answered", answerOf(a)},
	}, approversOf(a)...)...)
	if change := a.GetToolChange(); change != "" {
		fmt.Fprintf(w, "\ntool changed:\n  %s\n", untrusted.Lines(change, 2))
	}
	args := "  unavailable: the gateway does not have the key that encrypts them"
	if a.GetArguments() != "" {
		args = "  " + untrusted.Lines(a.GetArguments(), 2)
	}
	fmt.Fprintf(w, "\narguments:\n%s\n", args)
	if why := a.GetMayNotApproveWhy(); why != "" {
		fmt.Fprintf(w, "\n%s\n", why)
	}
}

// valid returns the validity of the flags; nil: the default.
func (c *approvalsCommand) valid() *durationpb.Duration {
	if c.validFor == 0 {
		return nil
	}
	return durationpb.New(c.validFor)
}

// callOf describes the call of an approval.
func callOf(a *capgatepb.Approval) string {
	text := untrusted.Word(a.GetTool()) + " of " + untrusted.Word(a.GetCapability())
	for _, who := range []struct{ what, name string }{{" by user ", a.GetUser()}, {" by agent ", a.GetAgent()}} {
		if who.name != "" {
			text += who.what + untrusted.Word(who.name)
		}
	}
	return text
}

// covered describes the calls that waited and got the same answer.
func covered(a *capgatepb.Approval) string {
	text := ""
	switch n := a.GetAlsoAnswered(); {
	case n == 1:
		text = "1 other call that waited got the same answer\n"
	case n > 1:
		text = fmt.Sprintf("%d other calls that waited got the same answer\n", n)
	}
	if a.GetMoreMayWait() {
		text += "further calls that it covers may still wait; list them and answer them\n"
	}
	return text
}

// holds describes the further calls that an answer covers.
func holds(a *capgatepb.Approval) string {
	end := ""
	if a.GetValidUntil() != nil {
		end = ", until " + when(a.GetValidUntil())
	}
	switch a.GetRemember() {
	case "session":
		return "; also calls of the tool in the same session" + end
	case "always":
		return "; also all calls of the tool by this user and agent, by a rule" + end
	}
	return ""
}

func answerOf(a *capgatepb.Approval) string {
	if a.GetAnswerTime() == nil {
		return ""
	}
	text := when(a.GetAnswerTime()) + " by " + untrusted.Word(a.GetAnsweredBy()) + ", for the " + a.GetRemember()
	if a.GetRemember() == "always" {
		text = strings.TrimSuffix(text, "the always") + "good"
	}
	if a.GetComment() != "" {
		text += ": " + a.GetComment()
	}
	return text
}

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const policyMatrixHelp = `Each row is a tool, and each column a caller: any, and the users and agents that rules name.
A tool with * is named by rules, and the capability does not list it. capgate policy explain shows the rule
behind a decision. In a gateway with tenants, --tenant is needed.`

// policyMatrix is the command line of capgate policy matrix.
type policyMatrix struct {
	output
	request *capgatepb.ListDecisionsRequest
}

func newPolicyMatrix(std stdio) *cobra.Command {
	c := &policyMatrix{output: output{stdio: std}, request: &capgatepb.ListDecisionsRequest{PageSize: 100}}
	command := overAdmin("matrix CAPABILITY", "show the decisions on all tools, by caller", requestTimeout, c.run,
		c.flags, c.addFlags)
	command.Long = policyMatrixHelp
	return command
}

func (c *policyMatrix) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.request.Tenant, "tenant", "", "`name` of the tenant")
	fs.StringVar(&c.request.Query, "query", "", "only tools with these `words` in their name")
	fs.StringVar(&c.request.Caller, "caller", "", "only callers with these `words` in a name")
}

func (c *policyMatrix) run(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	c.request.Capability = args[0]
	all := new(capgatepb.ListDecisionsResponse)
	err := pages(func(token string) (string, error) {
		c.request.PageToken = token
		page, err := capgatepb.NewPoliciesClient(conn).ListDecisions(cmd.Context(), c.request)
		all.Decisions = append(all.Decisions, page.GetDecisions()...)
		all.Callers, all.Tools, all.CallersOmitted = page.GetCallers(), page.GetTools(), page.GetCallersOmitted()
		return page.GetNextPageToken(), err
	})
	return c.result(all, err, func(w io.Writer) { c.print(w, all) })
}

// print writes a row for each tool, and a column for each caller. Pages may have other callers, if a rule was set in
// between.
func (c *policyMatrix) print(w io.Writer, all *capgatepb.ListDecisionsResponse) {
	columns, at := []string{"TOOL"}, map[caller]int{}
	for _, d := range all.GetDecisions() {
		if by := callerIn(d); at[by] == 0 {
			at[by] = len(columns)
			columns = append(columns, untrusted.Word(by.String()))
		}
	}
	t := newTable(columns...).on(c.out, "no tools")
	for _, of := range byTool(all.GetDecisions()) {
		row := make([]any, len(columns))
		for i := range row {
			row[i] = ""
		}
		if row[0] = of[0].GetTool(); of[0].GetUnlisted() {
			row[0] = of[0].GetTool() + " *"
		}
		for _, d := range of {
			row[at[callerIn(d)]] = d.GetPolicy()
		}
		t.row(row...)
	}
	t.print(w)
	if all.GetCallersOmitted() {
		fmt.Fprintln(c.err, "capgate policy matrix: there are more callers; --caller selects others")
	}
}

// byTool divides decisions, which are in the order of tools, by tool.
func byTool(all []*capgatepb.ListDecisionsResponse_Decision) (tools [][]*capgatepb.ListDecisionsResponse_Decision) {
	for i, d := range all {
		if i == 0 || all[i-1].GetTool() != d.GetTool() {
			tools = append(tools, nil)
		}
		tools[len(tools)-1] = append(tools[len(tools)-1], d)
	}
	return tools
}

// caller is the caller of a decision: a user, an agent, both, or any.
type caller struct{ user, agent string }

func callerIn(d *capgatepb.ListDecisionsResponse_Decision) caller {
	return caller{d.GetUser(), d.GetAgent()}
}

// String names the caller.
func (c caller) String() string {
	switch {
	case c.user != "" && c.agent != "":
		return "user " + c.user + " with agent " + c.agent
	case c.user != "":
		return "user " + c.user
	case c.agent != "":
		return "agent " + c.agent
	}
	return "any caller"
}

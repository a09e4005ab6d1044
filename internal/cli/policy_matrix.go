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

// print writes a row for each tool. The decisions of a tool follow each other, and its callers have the same order as
// those of every tool.
func (c *policyMatrix) print(w io.Writer, all *capgatepb.ListDecisionsResponse) {
	decisions, callers := all.GetDecisions(), int(all.GetCallers())
	columns := []string{"TOOL"}
	for _, d := range decisions[:min(callers, len(decisions))] {
		columns = append(columns, untrusted.Word(columnOf(d)))
	}
	t := newTable(columns...)
	t.none = "no tools"
	t.on(c.out)
	for len(decisions) >= callers && callers > 0 {
		name := decisions[0].GetTool()
		if decisions[0].GetUnlisted() {
			name += " *"
		}
		row := []any{name}
		for _, d := range decisions[:callers] {
			row = append(row, d.GetPolicy())
		}
		t.row(row...)
		decisions = decisions[callers:]
	}
	t.print(w)
	if all.GetCallersOmitted() {
		fmt.Fprintln(c.err, "capgate policy matrix: there are more callers; --caller selects others")
	}
}

// columnOf names the caller of a decision.
func columnOf(d *capgatepb.ListDecisionsResponse_Decision) string {
	switch {
	case d.GetUser() != "" && d.GetAgent() != "":
		return d.GetUser() + " with " + d.GetAgent()
	case d.GetUser() != "":
		return d.GetUser()
	case d.GetAgent() != "":
		return "with " + d.GetAgent()
	}
	return "ANYONE"
}

package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// changesCommand is capgate audit list.
type changesCommand struct {
	output
	filter *capgatepb.ListChangesRequest
}

func newChangesCommand(std stdio) *cobra.Command {
	c := &changesCommand{output: output{stdio: std}, filter: new(capgatepb.ListChangesRequest)}
	list := overAdmin("list", "list the last changes by people and programs, the newest first", requestTimeout, c.list,
		c.flags, c.addFlags)
	list.Long = "The gateway has about 1,000 changes of all replicas. The files of the audit log have all of them."
	return list
}

func (c *changesCommand) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.filter.Query, "query", "", "only changes with these `words` in a text")
	fs.StringVar(&c.filter.Tenant, "tenant", "", "`name` of the tenant; default all")
	fs.StringVar(&c.filter.Actor, "actor", "", "only changes by the person or program with this `name`")
	fs.StringVar(&c.filter.What, "what", "", "only changes of this `kind`, such as rule.set or 'rule.*'")
}

func (c *changesCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	c.filter.PageSize = 1000
	all, err := everyPage(cmd, capgatepb.NewAuditLogClient(conn).ListChanges, c.filter)
	return c.result(all, err, func(w io.Writer) {
		t := newTable("AGE", "WHO", "WHAT", "OF", "TENANT", "REPLICA").on(c.out, "no changes", "REPLICA", "TENANT")
		for _, change := range all.GetChanges() {
			t.row(ageOf(change.GetTime()), change.GetActor(), change.GetWhat(), targetsOf(change), change.GetTenant(),
				change.GetReplica())
		}
		t.print(w)
		warnPartial(c.err, all.GetPartial())
	})
}

// targetsOf returns what a change is about, as names and values.
func targetsOf(c *capgatepb.Change) string {
	var all []string
	for _, t := range c.GetTargets() {
		all = append(all, t.GetName()+"="+t.GetValue())
	}
	return strings.Join(all, " ")
}

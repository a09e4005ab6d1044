package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const sessionsHelp = `A session begins when a person, or the holder of an API key, signs in at the console, at the inbox
or with capgate login. API keys and tokens that are sent with every request need none.`

// sessionsCommand is capgate sessions.
type sessionsCommand struct {
	output
	query, name string
}

// newSessionsCommand returns the command capgate sessions.
func newSessionsCommand(std stdio) *cobra.Command {
	c := &sessionsCommand{output: output{stdio: std}}
	revoke := overAdmin("revoke [ID]", "end a session, or all sessions of a person", requestTimeout, c.revoke,
		c.nameFlag, c.addFlags)
	revoke.Long = "It ends at all replicas within two seconds. Roles and keys stay valid, so the person can sign in\n" +
		"again."
	return parent("sessions", "list and end the sessions of people", sessionsHelp,
		overAdmin("list", "list the sessions that have not ended, the newest first", requestTimeout, c.list,
			c.queryFlag, c.addFlags), revoke)
}

func (c *sessionsCommand) queryFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.query, "query", "", "only sessions with these `words` in a text, such as a name")
}

func (c *sessionsCommand) nameFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.name, "name", "", "end all sessions of the person or key with this `name`, as shown by list")
}

func (c *sessionsCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	all, err := everyPage(cmd, capgatepb.NewOperatorsClient(conn).ListSessions,
		&capgatepb.ListSessionsRequest{Query: c.query, PageSize: 500})
	return c.result(whole{all}, err, func(w io.Writer) {
		t := newTable("ID", "NAME", "AT", "VIA", "TENANT", "AGE", "ENDS").
			on(c.out, "no sessions", "VIA", "TENANT", "AGE")
		for _, s := range all.GetSessions() {
			t.row(s.GetId(), s.GetName(), s.GetKind(), s.GetVia(), s.GetTenant(), ageOf(s.GetCreateTime()),
				ends(s.GetExpireTime()))
		}
		t.print(w)
	})
}

func (c *sessionsCommand) revoke(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	req := &capgatepb.RevokeSessionsRequest{Name: c.name}
	if len(args) == 1 {
		req.Session = args[0]
	}
	if (req.GetSession() == "") == (req.GetName() == "") {
		return usageError("want the id of a session, or --name")
	}
	answer, err := capgatepb.NewOperatorsClient(conn).RevokeSessions(cmd.Context(), req)
	return c.result(answer, err, func(w io.Writer) {
		if c.name != "" {
			fmt.Fprintf(w, "ended: all sessions of %s\n", c.name)
			return
		}
		fmt.Fprintf(w, "ended: %s\n", req.GetSession())
	})
}

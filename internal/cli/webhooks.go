package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const webhooksHelp = `A notice that could not be delivered is a dead letter. It is kept for a retry.`

// webhooksCommand is capgate webhooks.
type webhooksCommand struct {
	output
	query string
	all   bool
}

// newWebhooksCommand returns the command capgate webhooks.
func newWebhooksCommand(std stdio) *cobra.Command {
	c := &webhooksCommand{output: output{stdio: std}}
	return parent("webhooks", "list and retry notices that could not be delivered", webhooksHelp,
		overAdmin("list", "list dead letters, the newest first", requestTimeout, c.list, c.queryFlag, c.addFlags),
		overAdmin("retry [ID]", "deliver a dead letter again, or all of them", 0, c.retry, c.allFlag, c.queryFlag,
			c.addFlags))
}

func (c *webhooksCommand) queryFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.query, "query", "", "only dead letters with these `words` in a text, such as a destination")
}

func (c *webhooksCommand) allFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&c.all, "all", false, "retry all dead letters, or those that --query selects")
}

func (c *webhooksCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	all := new(capgatepb.ListDeadLettersResponse)
	err := pages(func(token string) (string, error) {
		page, err := capgatepb.NewWebhooksClient(conn).ListDeadLetters(cmd.Context(),
			&capgatepb.ListDeadLettersRequest{Query: c.query, PageSize: 100, PageToken: token})
		all.Dead, all.Destinations = append(all.Dead, page.GetDead()...), page.GetDestinations()
		all.Malformed += page.GetMalformed()
		return page.GetNextPageToken(), err
	})
	return c.result(whole{all}, err, func(w io.Writer) {
		skipped(w, all.GetMalformed())
		switch {
		case len(all.GetDead()) == 0 && c.query != "":
			fmt.Fprintln(w, "no dead letter fits the query")
			return
		case len(all.GetDead()) == 0:
			to := "no notices are configured (approvals.notices)"
			if names := all.GetDestinations(); len(names) > 0 {
				to = "all notices to " + untrusted.Word(strings.Join(names, ", ")) + " arrived"
			}
			fmt.Fprintln(w, "no dead letters: "+to)
			return
		}
		t := newTable("ID", "DESTINATION", "EVENT", "APPROVAL", "DIED", "ATTEMPTS", "REASON", "TENANT").
			on(c.out, "", "APPROVAL", "TENANT", "ATTEMPTS", "EVENT")
		for _, l := range all.GetDead() {
			t.row(l.GetId(), l.GetDestination(), l.GetType(), l.GetApproval(), ageOf(l.GetDied()), l.GetAttempts(),
				untrusted.Beginning(l.GetError(), maxWhy), l.GetTenant())
		}
		t.print(w)
	})
}

func (c *webhooksCommand) retry(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	client := capgatepb.NewWebhooksClient(conn)
	switch {
	case c.all == (len(args) == 1):
		return usageError("want the id of a dead letter, or --all")
	case !c.all && c.query != "":
		return usageError("--query selects letters for --all")
	case !c.all:
		answer, err := client.RetryDeadLetter(cmd.Context(), &capgatepb.RetryDeadLetterRequest{Id: args[0]})
		return c.result(answer, err, func(w io.Writer) { fmt.Fprintf(w, "retried: %s\n", args[0]) })
	}
	// A letter that dies again meanwhile is not retried without end.
	const most = 100
	all := &capgatepb.RetryDeadLettersResponse{More: true}
	for i := 0; i < most && all.GetMore(); i++ {
		part, err := client.RetryDeadLetters(cmd.Context(), &capgatepb.RetryDeadLettersRequest{Query: c.query})
		if err != nil {
			if n := int(all.GetRetried()); n > 0 {
				fmt.Fprintf(c.err, "retried before the error: %s\n", count(n, "dead letter"))
			}
			return err
		}
		all.Retried, all.More = all.GetRetried()+part.GetRetried(), part.GetMore() && part.GetRetried() > 0
		all.Malformed = max(all.GetMalformed(), part.GetMalformed())
	}
	return c.data(whole{all}, func(w io.Writer) {
		skipped(w, all.GetMalformed())
		fmt.Fprintf(w, "retried: %s\n", count(int(all.GetRetried()), "dead letter"))
	})
}

// skipped says how many dead letters were skipped.
func skipped(w io.Writer, malformed int32) {
	if malformed > 0 {
		fmt.Fprintf(w, "skipped: %s in Redis that cannot be decoded\n", count(int(malformed), "dead letter"))
	}
}

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const callsHelp = `The newest calls are printed last. A call has no arguments and no result. The gateway keeps
as many as its configuration says (calls.keep), and the access log has all of them. With --since
the calls of past days are searched (calls.past). With --follow the command prints each call
as it ends, until Ctrl-C. It reconnects if the connection is lost.`

// callsCommand is capgate calls.
type callsCommand struct {
	output
	filter *capgatepb.ListCallsRequest
	most   int
	follow bool
	since  time.Duration
}

// newCallsCommand returns the command capgate calls.
func newCallsCommand(std stdio) *cobra.Command {
	c := &callsCommand{output: output{stdio: std}, filter: new(capgatepb.ListCallsRequest)}
	command := overAdmin("calls", "show the last calls, and those that end from now on", 0, c.run, c.flags, c.addFlags)
	command.Long = callsHelp
	return command
}

func (c *callsCommand) flags(fs *pflag.FlagSet) {
	f := c.filter
	fs.BoolVarP(&c.follow, "follow", "f", false, "continue with calls as they end")
	fs.IntVarP(&c.most, "lines", "n", 20, "maximum number of earlier `calls`")
	fs.DurationVar(&c.since, "since", 0, "search the calls of this `time`, such as 24h or 168h")
	fs.StringVar(&f.Query, "query", "", "only calls with these `words` in a text, such as a request id")
	fs.StringVar(&f.Tenant, "tenant", "", "`name` of the tenant; default all")
	addSubjectFlags(fs, &f.User, &f.Agent, &f.Capability, &f.Tool)
	fs.StringVar(&f.Reason, "reason", "", "only calls refused for this `reason`, such as RATE_LIMITED; '*': any")
	fs.StringVar(&f.Code, "code", "", "only calls with this gRPC `code`, such as UNAVAILABLE; '*': any but OK")
	fs.StringVar(&f.Outcome, "outcome", "", "only calls with this `outcome`: tool_error, incomplete or success")
	fs.StringVar(&f.MinDuration, "min-duration", "", "only calls that took at least this `time`, such as 250ms")
}

func (c *callsCommand) run(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	if c.most < 0 {
		return usageError("--lines: want 0 or more")
	}
	switch {
	case c.since < 0:
		return usageError("--since: want a time such as 24h")
	case c.since > 0 && c.follow:
		return usageError("--since and --follow exclude each other; give one of the two")
	case c.since > 0:
		c.filter.StartTime = timestamppb.New(time.Now().Add(-c.since))
	}
	client := capgatepb.NewCallsClient(conn)
	if !c.follow {
		all, err := c.list(cmd.Context(), client)
		var more string
		if err == nil && c.since > 0 {
			more = c.others(cmd.Context(), client, all)
		}
		return c.result(all, err, func(w io.Writer) {
			c.lines(w, all.GetCalls())
			warnPartial(c.err, all.GetPartial())
			if all.GetIncomplete() {
				fmt.Fprintln(c.err, "the calls of some tenants were not searched; name one with --tenant")
			}
			switch {
			case more != "":
				fmt.Fprintln(c.err, more)
			case len(all.GetCalls()) == 0:
				fmt.Fprintln(c.err, "no calls")
			}
		})
	}
	return again(cmd.Context(), c.err, "capgate calls", c.stream(cmd.Context(), client))
}

// list returns the earlier calls, the oldest first.
func (c *callsCommand) list(ctx context.Context, client capgatepb.CallsClient) (*capgatepb.ListCallsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all := new(capgatepb.ListCallsResponse)
	if c.most == 0 {
		return all, nil
	}
	err := pages(func(token string) (string, error) {
		c.filter.PageToken = token
		c.filter.PageSize = int32(min(c.most-len(all.GetCalls()), 500)) //nolint:gosec // small
		page, err := client.ListCalls(ctx, c.filter)
		all.Calls, all.Partial = append(all.Calls, page.GetCalls()...), page.GetPartial()
		all.Replica, all.Incomplete = page.GetReplica(), all.GetIncomplete() || page.GetIncomplete()
		if all.NextPageToken = page.GetNextPageToken(); len(all.GetCalls()) >= c.most {
			return "", err
		}
		return page.GetNextPageToken(), err
	})
	slices.Reverse(all.GetCalls())
	return all, err
}

// maxCounted bounds the calls that are counted but not shown.
const maxCounted = 5000

// others returns the number of calls that are not shown and the flag that shows them, as text; "" if all are shown.
func (c *callsCommand) others(ctx context.Context, client capgatepb.CallsClient, shown *capgatepb.ListCallsResponse) (
	text string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	n, token := len(shown.GetCalls()), shown.GetNextPageToken()
	counted := n
	for token != "" && counted < n+maxCounted {
		c.filter.PageToken, c.filter.PageSize = token, 500
		page, err := client.ListCalls(ctx, c.filter)
		if err != nil {
			break // at least so many
		}
		counted, token = counted+len(page.GetCalls()), page.GetNextPageToken()
	}
	switch {
	case token != "":
		return fmt.Sprintf("the newest %d of more than %d calls are shown; -n %d shows more", n, counted, 10*max(n, 10))
	case counted > n:
		return fmt.Sprintf("the newest %d of %d calls are shown; -n %d shows all", n, counted, counted)
	}
	return ""
}

// stream returns a function for again. It prints the earlier calls once, when the stream has started, and no call
// twice.
func (c *callsCommand) stream(ctx context.Context, client capgatepb.CallsClient) func(began func()) error {
	f := c.filter
	req := &capgatepb.WatchCallsRequest{Tenant: f.GetTenant(), Capability: f.GetCapability(), Tool: f.GetTool(),
		Reason: f.GetReason(), Code: f.GetCode(), MinDuration: f.GetMinDuration(), User: f.GetUser(),
		Agent: f.GetAgent(), Outcome: f.GetOutcome(), Query: f.GetQuery()}
	earlier := map[string]bool{}
	first := true
	return func(began func()) error {
		stream, err := client.WatchCalls(ctx, req)
		if err != nil {
			return err
		}
		for {
			e, err := stream.Recv()
			if err != nil {
				return err
			}
			if e.GetId() != "" {
				req.LastEventId = e.GetId()
			}
			switch call := e.GetCall(); {
			case e.GetEvent() == "began":
				began()
				if first {
					err = c.earlier(ctx, client, earlier)
				}
				first = false
			case call == nil: // missed
				fmt.Fprintln(c.err, "capgate calls: calls are missing here; there were too many, or the "+
					"connection was lost")
			case !earlier[call.GetId()]:
				err = c.record(call, func(w io.Writer) { c.line(w, call) })
			}
			if err != nil {
				return err
			}
		}
	}
}

// earlier prints the calls that ended before the stream began, and notes them.
func (c *callsCommand) earlier(ctx context.Context, client capgatepb.CallsClient, noted map[string]bool) error {
	all, err := c.list(ctx, client)
	for _, call := range all.GetCalls() {
		noted[call.GetId()] = true
		if err == nil {
			err = c.record(call, func(w io.Writer) { c.line(w, call) })
		}
	}
	return err
}

// line prints a call that has just ended.
func (c *callsCommand) line(w io.Writer, call *capgatepb.RecentCall) {
	l, cells := followed(widthOf(c.out)), cellsOf(call, time.TimeOnly)
	l.print(w, &cells, colored(c.out))
}

// lines prints calls in aligned columns. Those of another day have a date.
func (c *callsCommand) lines(w io.Writer, all []*capgatepb.RecentCall) {
	layout := time.TimeOnly
	for _, call := range all {
		if call.GetTime().AsTime().Local().Format(time.DateOnly) != time.Now().Format(time.DateOnly) {
			layout = "01-02 15:04:05"
		}
	}
	var cells []callCells
	for _, call := range all {
		cells = append(cells, cellsOf(call, layout))
	}
	l := layoutOf(cells, widthOf(c.out))
	for i := range cells {
		l.print(w, &cells[i], colored(c.out))
	}
}

// warnPartial says that a list is not whole.
func warnPartial(err io.Writer, partial bool) {
	if partial {
		fmt.Fprintln(err, "Redis is away: the list is that of one replica")
	}
}

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const callsHelp = `The newest calls are printed last. A call has no arguments and no result. The gateway keeps
as many as its configuration says (calls.keep), and the access log has all of them. With --since
the calls of past days are searched (calls.past). With --follow the command goes on with every call
that ends, until Ctrl-C. It reconnects if the connection is lost.`

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
	fs.BoolVarP(&c.follow, "follow", "f", false, "go on with the calls that end from now on")
	fs.IntVarP(&c.most, "lines", "n", 20, "at most so many earlier `calls`")
	fs.DurationVar(&c.since, "since", 0, "search the calls of this `time`, such as 24h or 168h")
	fs.StringVar(&f.Query, "query", "", "only calls with these `words` in a text, such as a request id")
	fs.StringVar(&f.Tenant, "tenant", "", "`name` of the tenant; default all")
	fs.StringVar(&f.User, "user", "", "only calls of the user with this `name`")
	fs.StringVar(&f.Agent, "agent", "", "only calls of the agent with this `name`")
	fs.StringVar(&f.Capability, "capability", "", "only calls of the capability with this `id`")
	fs.StringVar(&f.Tool, "tool", "", "only calls of the tool with this `name`")
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
		return usageError("--since: it does not go with --follow")
	case c.since > 0:
		c.filter.StartTime = timestamppb.New(time.Now().Add(-c.since))
	}
	client := capgatepb.NewCallsClient(conn)
	if !c.follow {
		all, err := c.list(cmd.Context(), client)
		return c.result(all, err, func(w io.Writer) {
			for _, call := range all.GetCalls() {
				c.line(w, call)
			}
			warnPartial(c.err, all.GetPartial())
			if all.GetIncomplete() {
				fmt.Fprintln(c.err, "capgate calls: not all calls of that time were searched; name a tenant, or a "+
					"shorter time")
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
		if len(all.GetCalls()) >= c.most {
			return "", err
		}
		return page.GetNextPageToken(), err
	})
	slices.Reverse(all.GetCalls())
	return all, err
}

// stream returns a function for again. It prints the earlier calls once, when the stream has begun, and no call twice.
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

// line prints a call as one line: the time, the caller, the tool, how the call ended, how long it took, and its request
// id. On a narrow terminal, the names are cut.
func (c *callsCommand) line(w io.Writer, call *capgatepb.RecentCall) {
	tint, result := green, call.GetCode()
	switch {
	case call.GetReason() != "":
		tint, result = red, call.GetReason()
	case call.GetOutcome() == "tool_error":
		tint, result = yellow, "tool error"
	case call.GetCode() != "OK":
		tint = red
	}
	tool := untrusted.Word(call.GetTool())
	if call.GetCapability() != "" {
		tool = untrusted.Word(call.GetCapability()) + "." + tool
	}
	took := latency(float64(call.GetDuration().AsDuration()) / float64(time.Millisecond))
	most := max(widthOf(c.out)-len("15:04:05  ")-len(result)-len(took)-3*columnGap, 0)
	caller, id := callerOf(call), untrusted.Word(call.GetRequestId())
	if most > 0 {
		if len(id)+columnGap > most-2*readable {
			id = "" // -o json has it
		} else {
			most -= len(id) + columnGap
		}
		caller = untrusted.Beginning(caller, max(most/3, readable)-1)
		tool = untrusted.Beginning(tool, max(most-max(most/3, readable), readable)-1)
	}
	if colored(c.out) {
		result = tint + result + plain
	}
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s  %-10s  %-16s  %s  %s  %s",
		call.GetTime().AsTime().Local().Format(time.TimeOnly), caller, tool, result, took, id), " "))
}

// callerOf names the caller, as precisely as the call does.
func callerOf(call *capgatepb.RecentCall) string {
	name := untrusted.Word(call.GetKey())
	switch {
	case call.GetUser() != "":
		name = untrusted.Word(call.GetUser())
	case call.GetAgent() != "":
		name = untrusted.Word(call.GetAgent())
	}
	if t := call.GetTenant(); t != "" && t != "default" {
		name = untrusted.Word(t) + "/" + name
	}
	return name
}

// warnPartial says that a list is not whole.
func warnPartial(err io.Writer, partial bool) {
	if partial {
		fmt.Fprintln(err, "Redis is away: the list is that of one replica")
	}
}

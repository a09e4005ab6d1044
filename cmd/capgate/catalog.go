package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const catalogUsage = `Usage: capgate catalog list [flags]
       capgate catalog show CAPABILITY [flags]
       capgate catalog accept CAPABILITY TOOL HASH [flags]
       capgate catalog discover CAPABILITY [flags]

Which tools capabilities have. A tool whose description or schema has changed has drifted:
where it would be allowed it is asked about, at all replicas, until it is accepted. HASH is
that of show, so that nobody accepts what they have not seen. discover asks a capability
whose manifest says tool_source: dynamic for its tools now.

Exit status: 0, or 1 if the gateway refused or the discovery failed, 2 for a wrong command
line, 3 if the gateway could not be reached.

Flags:
`

// catalogTime bounds what one command asks: two calls of a discovery tool of 2 min each.
const catalogTime = 5 * time.Minute

// catalogCommand is capgate catalog.
type catalogCommand struct {
	words  []string
	client capgatepb.CatalogAdminClient
	out    io.Writer
}

func runCatalog(ctx context.Context, args []string, std stdio) int {
	c := catalogCommand{out: std.out}
	fs := flag.NewFlagSet("catalog", flag.ContinueOnError)
	admin := addAdmin(fs)
	words, code, ok := parseLine(fs, args, 4, catalogUsage, std)
	if !ok {
		return code
	}
	run, err := c.verb(words)
	if err != nil {
		return wrongLine(fs, err, std)
	}
	conn, err := dialOperators(*admin, "capgate-catalog")
	if err != nil {
		return wrongLine(fs, err, std)
	}
	defer func() { _ = conn.Close() }()
	c.client = capgatepb.NewCatalogAdminClient(conn)
	ctx, cancel := context.WithTimeout(ctx, catalogTime)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintf(std.err, "capgate catalog: %s\n", describeStatus(err))
		if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled {
			return exitTransport
		}
		return exitRefused
	}
	return 0
}

// verb takes the words of the command line.
func (c *catalogCommand) verb(words []string) (run func(context.Context) error, err error) {
	if len(words) == 0 {
		return nil, errors.New("want list, show, accept or discover")
	}
	wants, run := map[string]int{"list": 0, "show": 1, "accept": 3, "discover": 1}[words[0]], map[string]func(context.Context) error{
		"list": c.list, "show": c.show, "accept": c.accept, "discover": c.discover,
	}[words[0]]
	c.words = words[1:]
	switch {
	case run == nil:
		return nil, fmt.Errorf("%q is not known; want list, show, accept or discover", words[0])
	case len(c.words) != wants:
		return nil, fmt.Errorf("%s wants %s, not %d", words[0], count(wants, "word"), len(c.words))
	}
	return run, nil
}

func (c *catalogCommand) list(ctx context.Context) error {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CAPABILITY\tTOOLS\tDRIFTED\tSOURCE\tDISCOVERED\tWHY NOT")
	for token := ""; ; {
		page, err := c.client.ListCatalog(ctx, &capgatepb.ListCatalogRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return err
		}
		for _, e := range page.GetCapabilities() {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", e.GetCapability(), toolCount(e), e.GetDriftedCount(), e.GetSource(), discovered(e), orDash(whyNot(e)))
		}
		if token = page.GetNextPageToken(); token == "" {
			return table.Flush()
		}
	}
}

func toolCount(e *capgatepb.CatalogEntry) string {
	if !e.GetKnown() {
		return "-"
	}
	return fmt.Sprint(e.GetToolCount())
}

func discovered(e *capgatepb.CatalogEntry) string {
	if e.GetLastSuccess() == nil {
		return "-"
	}
	return e.GetLastSuccess().AsTime().Format(time.RFC3339)
}

// whyNot says why the newest tools are not in force.
func whyNot(e *capgatepb.CatalogEntry) string {
	if e.GetPending() != "" {
		return e.GetPending()
	}
	return e.GetLastError()
}

func (c *catalogCommand) show(ctx context.Context) error {
	answer, err := c.client.ShowCatalog(ctx, &capgatepb.ShowCatalogRequest{Capability: c.words[0]}, grpc.MaxCallRecvMsgSize(maxAnswer))
	if err == nil {
		err = c.print(answer.GetCapability())
	}
	return err
}

func (c *catalogCommand) print(e *capgatepb.CatalogEntry) error {
	if why := whyNot(e); why != "" {
		fmt.Fprintf(c.out, "not the newest: %s\n\n", why)
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TOOL\tRECOMMENDED\tSTATE\tHASH\tDESCRIPTION")
	for _, t := range e.GetTools() {
		state := "accepted"
		if t.GetDrifted() {
			state = "drifted"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", t.GetName(), orDash(t.GetRecommendedPolicy()), state, t.GetHash(), oneLine(t.GetDescription()))
	}
	return table.Flush()
}

// oneLine is the beginning of a text, without what a terminal could take for orders.
func oneLine(text string) string {
	const most = 60
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f && r < 0xa0 }), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

func (c *catalogCommand) accept(ctx context.Context) error {
	_, err := c.client.AcceptTool(ctx, &capgatepb.AcceptToolRequest{Capability: c.words[0], Tool: c.words[1], Hash: c.words[2]}, grpc.MaxCallRecvMsgSize(maxAnswer))
	if err == nil {
		fmt.Fprintf(c.out, "accepted: %s of %s\n", c.words[1], c.words[0])
	}
	return err
}

func (c *catalogCommand) discover(ctx context.Context) error {
	answer, err := c.client.DiscoverTools(ctx, &capgatepb.DiscoverToolsRequest{Capability: c.words[0]}, grpc.MaxCallRecvMsgSize(maxAnswer))
	if err != nil {
		return err
	}
	if why := answer.GetCapability().GetLastError(); why != "" {
		return errors.New("what was known stays: " + why)
	}
	return c.print(answer.GetCapability())
}

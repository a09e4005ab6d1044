package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const catalogUsage = `Usage: capgate catalog list [flags]
       capgate catalog show CAPABILITY [flags]
       capgate catalog accept CAPABILITY TOOL HASH [flags]
       capgate catalog discover CAPABILITY [flags]

Shows the tools of capabilities. A tool whose description or schema has changed has drifted: at
all replicas, calls that would be allowed need approval until the tool is accepted. HASH is the
hash that show prints, so that only a version that was shown can be accepted. discover fetches
the tools of a capability whose manifest has tool_source: dynamic.

Exit status: 0 on success; 1 if the gateway rejected the request or the discovery failed; 2 for
a wrong command line; 3 if the gateway could not be reached.

Flags:
`

// discoverTime is the timeout of discover: two calls of a discovery tool of 2 min each.
const discoverTime = 5 * time.Minute

// catalogCommand is capgate catalog.
type catalogCommand struct {
	words  []string
	client capgatepb.CatalogAdminClient
	out    io.Writer
}

func runCatalog(ctx context.Context, args []string, std stdio) int {
	c := catalogCommand{out: std.out}
	all := verbs{
		flags: flag.NewFlagSet("catalog", flag.ContinueOnError), usage: catalogUsage,
		all: []verb{
			{name: "list", run: soon(c.list)},
			{name: "show", words: 1, run: soon(c.show)},
			{name: "accept", words: 3, run: soon(c.accept)},
			{name: "discover", words: 1, run: within(discoverTime, c.discover)},
		},
		take: func(_ string, words []string) error {
			c.words = words
			return nil
		},
		dial: func(conn grpc.ClientConnInterface) { c.client = capgatepb.NewCatalogAdminClient(conn) },
	}
	return all.run(ctx, args, std)
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
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", e.GetCapability(), toolCount(e), e.GetDriftedCount(),
				e.GetSource(), discovered(e), orDash(whyNot(e)))
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

// whyNot returns the reason why the newest tools are not in effect.
func whyNot(e *capgatepb.CatalogEntry) string {
	if e.GetPending() != "" {
		return e.GetPending()
	}
	return e.GetLastError()
}

func (c *catalogCommand) show(ctx context.Context) error {
	answer, err := c.client.ShowCatalog(ctx, &capgatepb.ShowCatalogRequest{Capability: c.words[0]},
		grpc.MaxCallRecvMsgSize(maxResponse))
	if err == nil {
		err = c.print(answer.GetCapability())
	}
	return err
}

func (c *catalogCommand) print(e *capgatepb.CatalogEntry) error {
	if why := whyNot(e); why != "" {
		fmt.Fprintf(c.out, "not current: %s\n\n", why)
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TOOL\tRECOMMENDED\tSTATE\tHASH\tDESCRIPTION")
	for _, t := range e.GetTools() {
		state := "accepted"
		if t.GetDrifted() {
			state = "drifted"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", t.GetName(), orDash(t.GetRecommendedPolicy()), state, t.GetHash(),
			beginning(t.GetDescription(), 60))
	}
	return table.Flush()
}

func (c *catalogCommand) accept(ctx context.Context) error {
	_, err := c.client.AcceptTool(ctx,
		&capgatepb.AcceptToolRequest{Capability: c.words[0], Tool: c.words[1], Hash: c.words[2]},
		grpc.MaxCallRecvMsgSize(maxResponse))
	if err == nil {
		fmt.Fprintf(c.out, "accepted: %s of %s\n", c.words[1], c.words[0])
	}
	return err
}

func (c *catalogCommand) discover(ctx context.Context) error {
	answer, err := c.client.DiscoverTools(ctx, &capgatepb.DiscoverToolsRequest{Capability: c.words[0]},
		grpc.MaxCallRecvMsgSize(maxResponse))
	if err != nil {
		return err
	}
	if why := answer.GetCapability().GetLastError(); why != "" {
		return errors.New("the known tools stay: " + why)
	}
	return c.print(answer.GetCapability())
}

package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const catalogHelp = `A tool whose description or schema has changed has drifted: at all replicas, calls that would be
allowed need approval until the tool is accepted.`

// discoverTime is the timeout of discover: two calls of a discovery tool of 2 min each.
const discoverTime = 5 * time.Minute

// catalogCommand is capgate catalog.
type catalogCommand struct{ output }

// newCatalogCommand returns the command capgate catalog.
func newCatalogCommand(std stdio) *cobra.Command {
	c := &catalogCommand{output{stdio: std}}
	accept := overAdmin("accept CAPABILITY TOOL HASH", "accept a changed tool", requestTimeout, c.accept, c.addFlags)
	accept.Long = "HASH is the hash that show prints: only a version that was shown can be accepted."
	discover := overAdmin("discover CAPABILITY", "fetch the tools of a capability from a backend", discoverTime,
		c.discover, c.addFlags)
	discover.Long = "The capability's manifest has tool_source: dynamic."
	return parent("catalog", "show tools, and accept changed ones", catalogHelp,
		overAdmin("list", "list capabilities with the number of their tools", requestTimeout, c.list, c.addFlags),
		overAdmin("show CAPABILITY", "show the tools of a capability", requestTimeout, c.show, c.addFlags),
		accept, discover)
}

func (c *catalogCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	all, err := everyPage(cmd, capgatepb.NewCatalogAdminClient(conn).ListCatalog,
		&capgatepb.ListCatalogRequest{PageSize: 1000})
	return c.result(all, err, func(w io.Writer) {
		t := newTable("CAPABILITY", "TOOLS", "DRIFTED", "SOURCE", "DISCOVERED", "NOT CURRENT BECAUSE").
			on(c.out, "no capabilities")
		for _, e := range all.GetCapabilities() {
			t.row(e.GetCapability(), toolCount(e), e.GetDriftedCount(), e.GetSource(), ageOf(e.GetLastSuccess()),
				whyNot(e))
		}
		t.print(w)
	})
}

func toolCount(e *capgatepb.CatalogEntry) string {
	if !e.GetKnown() {
		return "-"
	}
	return fmt.Sprint(e.GetToolCount())
}

// whyNot returns the reason why the newest tools are not in effect.
func whyNot(e *capgatepb.CatalogEntry) string {
	if e.GetPending() != "" {
		return e.GetPending()
	}
	return e.GetLastError()
}

func (c *catalogCommand) show(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	answer, err := capgatepb.NewCatalogAdminClient(conn).ShowCatalog(cmd.Context(),
		&capgatepb.ShowCatalogRequest{Capability: args[0]})
	if err != nil {
		return err
	}
	return c.printTools(answer.GetCapability())
}

func (c *catalogCommand) printTools(e *capgatepb.CatalogEntry) error {
	return c.data(e, func(w io.Writer) {
		if why := whyNot(e); why != "" {
			fmt.Fprintf(w, "not current: %s\n\n", untrusted.Visible(why))
		}
		if left := e.GetLeftOut(); left != "" {
			fmt.Fprintf(w, "left out: %s\n\n", untrusted.Visible(left))
		}
		if !e.GetKnown() {
			fmt.Fprint(w, "no tools are known: the capability has no manifest, or has not listed its tools yet; "+
				"without a policy of its fleet or a rule, all calls are blocked\n\n")
		}
		t := newTable("TOOL", "RECOMMENDED", "STATE", "HASH", "DESCRIPTION").on(c.out, "")
		for _, tool := range e.GetTools() {
			state := "accepted"
			if tool.GetDrifted() {
				state = "drifted"
			}
			if n := len(tool.GetToolsets()); n > 0 {
				state += ", changed for " + count(n, "toolset")
			}
			t.row(tool.GetName(), tool.GetRecommendedPolicy(), state, tool.GetHash(),
				untrusted.Beginning(tool.GetDescription(), 60))
		}
		t.print(w)
	})
}

func (c *catalogCommand) accept(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	answer, err := capgatepb.NewCatalogAdminClient(conn).AcceptTool(cmd.Context(),
		&capgatepb.AcceptToolRequest{Capability: args[0], Tool: args[1], Hash: args[2]})
	return c.result(answer, err, func(w io.Writer) { fmt.Fprintf(w, "accepted: %s of %s\n", args[1], args[0]) })
}

func (c *catalogCommand) discover(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	answer, err := capgatepb.NewCatalogAdminClient(conn).DiscoverTools(cmd.Context(),
		&capgatepb.DiscoverToolsRequest{Capability: args[0]})
	if err != nil {
		return err
	}
	if why := answer.GetCapability().GetLastError(); why != "" {
		return refused("discovery failed; the known tools remain in use: %s", why)
	}
	return c.printTools(answer.GetCapability())
}

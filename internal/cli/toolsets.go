package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/admin/toolsets"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/toolset"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const toolsetsHelp = `A toolset is a list of tools for callers over MCP, at /mcp/NAME. Changes apply at all replicas
within a second. Toolsets of the configuration are listed too; they are changed in its file.

FILE is a toolset in YAML, as in the list toolsets of the configuration, without tenants; - is standard
input. In a gateway with tenants, all commands but list need --tenant or --global.`

// toolsetsCommand is capgate toolsets.
type toolsetsCommand struct {
	output
	tenant  string
	global  bool
	etag    string
	changed bool
}

// newToolsetsCommand returns the command capgate toolsets.
func newToolsetsCommand(std stdio) *cobra.Command {
	c := &toolsetsCommand{output: output{stdio: std}}
	accept := overAdmin("accept NAME CAPABILITY TOOL HASH", "accept a changed tool for a toolset", requestTimeout,
		c.accept, c.ownerFlags, c.addFlags)
	accept.Long = "HASH is the hash that show prints: only a version that was shown can be accepted."
	return parent("toolsets", "list, set and delete toolsets", toolsetsHelp,
		overAdmin("list", "list toolsets", requestTimeout, c.list, c.tenantFlag, c.changedFlag, c.addFlags),
		overAdmin("show NAME", "show the tools of a toolset", requestTimeout, c.show, c.ownerFlags, c.addFlags),
		overAdmin("set FILE", "set a toolset", requestTimeout, c.set, c.ownerFlags, c.etagFlag, c.addFlags),
		overAdmin("rm NAME", "delete a toolset", requestTimeout, c.remove, c.ownerFlags, c.etagFlag, c.addFlags),
		accept)
}

func (c *toolsetsCommand) tenantFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.tenant, "tenant", "", "`name` of the tenant; list: default all")
}

func (c *toolsetsCommand) ownerFlags(fs *pflag.FlagSet) {
	c.tenantFlag(fs)
	fs.BoolVar(&c.global, "global", false, "the toolset is for all tenants; show: also one of the configuration")
}

func (c *toolsetsCommand) etagFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.etag, "etag", "", "change only this `version`, the etag that show -o json prints")
}

func (c *toolsetsCommand) changedFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&c.changed, "changed", false, "only toolsets with tools that have changed")
}

func (c *toolsetsCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	all, err := everyPage(cmd, capgatepb.NewToolsetsClient(conn).ListToolsets,
		&capgatepb.ListToolsetsRequest{Tenant: c.tenant, Changed: c.changed, PageSize: 1000})
	return c.result(all, err, func(w io.Writer) {
		t := newTable("NAME", "ENTRIES", "CHANGED", "GROUPS", "SOURCE", "AGE", "SET BY", "TENANT").
			on(c.out, "no toolsets", "SET BY", "AGE", "GROUPS")
		for _, s := range all.GetToolsets() {
			t.row(s.GetName(), len(s.GetTools()), s.GetChangedCount(), strings.Join(s.GetGroups(), " "), s.GetSource(),
				ageOf(s.GetUpdateTime()), s.GetSetBy(), orAny(ownersOf(s)))
		}
		t.print(w)
	})
}

// ownersOf returns the tenants of a toolset; "" means all.
func ownersOf(s *capgatepb.Toolset) string {
	return cmp.Or(s.GetTenant(), strings.Join(s.GetTenants(), " "))
}

func (c *toolsetsCommand) show(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	answer, err := capgatepb.NewToolsetsClient(conn).GetToolset(cmd.Context(),
		&capgatepb.GetToolsetRequest{ToolsetName: args[0], Tenant: c.tenant, Global: c.global})
	return c.result(answer.GetToolset(), err, func(w io.Writer) { c.print(w, answer.GetToolset()) })
}

// print prints a toolset, and then the descriptions of tools that have changed.
func (c *toolsetsCommand) print(w io.Writer, s *capgatepb.Toolset) {
	details(w, [][2]string{{"toolset", s.GetName()}, {"path", s.GetPath()}, {"source", s.GetSource()},
		{"tenant", orAny(ownersOf(s))}, {"groups", orAny(strings.Join(s.GetGroups(), " "))},
		{"set by", orDash(s.GetSetBy())}, {"set", ageOf(s.GetUpdateTime())}}...)
	fmt.Fprintln(w)
	t := newTable("CAPABILITY", "TOOL", "NAME", "FIXED", "STATE", "DESCRIPTION").on(c.out, "", "DESCRIPTION")
	for _, e := range s.GetTools() {
		t.row(e.GetCapability(), e.GetTool(), e.GetName(), strings.Join(e.GetFixed(), " "), e.GetState(),
			untrusted.Beginning(e.GetDescription(), 60))
	}
	t.print(w)
	for _, e := range s.GetTools() {
		if problem := e.GetProblem(); problem != "" {
			fmt.Fprintf(w, "\n%s of %s: %s\n", e.GetTool(), e.GetCapability(), untrusted.Visible(problem))
		}
		if now := e.GetCurrent(); now != nil {
			fmt.Fprintf(w, "\n%s of %s has changed:\n", e.GetTool(), e.GetCapability())
			if was := e.GetDescribed(); was != nil {
				details(w, [2]string{"was", untrusted.Visible(was.GetDescription())},
					[2]string{"arguments", untrusted.Visible(was.GetInputSchema())})
			}
			details(w, [2]string{"is", untrusted.Visible(now.GetDescription())},
				[2]string{"arguments", untrusted.Visible(now.GetInputSchema())}, [2]string{"hash", now.GetHash()})
		}
	}
}

func (c *toolsetsCommand) set(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	var text []byte
	var err error
	if args[0] == "-" {
		text, err = io.ReadAll(c.in)
	} else {
		text, err = settings.Files{}.Read(args[0])
	}
	if err != nil {
		return err
	}
	of, err := config.ParseToolset(args[0], text)
	switch {
	case err != nil:
		return exitError{exitRefused, plainError{err}}
	case len(of.Tenants) > 0:
		return usageError("the file names tenants; remove them, and use --tenant or --global")
	}
	s := toolsets.Message(of)
	if proto.Size(s) > toolset.MaxText { // the gateway would not read the request
		return exitError{exitRefused, plainError{errors.New("the toolset has more than 64 KiB")}}
	}
	s.Tenant, s.Global, s.Etag = c.tenant, c.global, c.etag
	answer, err := capgatepb.NewToolsetsClient(conn).SetToolset(cmd.Context(), &capgatepb.SetToolsetRequest{Toolset: s})
	return c.result(answer.GetToolset(), err, func(w io.Writer) {
		fmt.Fprintf(w, "set: toolset %s, at %s\n", of.Name, answer.GetToolset().GetPath())
		for _, e := range answer.GetToolset().GetTools() {
			if problem := e.GetProblem(); problem != "" {
				fmt.Fprintf(w, "but %s\n", untrusted.Visible(problem))
			}
		}
	})
}

func (c *toolsetsCommand) remove(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	answer, err := capgatepb.NewToolsetsClient(conn).DeleteToolset(cmd.Context(),
		&capgatepb.DeleteToolsetRequest{ToolsetName: args[0], Tenant: c.tenant, Global: c.global, Etag: c.etag})
	return c.result(answer, err, func(w io.Writer) { fmt.Fprintf(w, "deleted: toolset %s\n", args[0]) })
}

func (c *toolsetsCommand) accept(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	answer, err := capgatepb.NewToolsetsClient(conn).AcceptToolsetTool(cmd.Context(),
		&capgatepb.AcceptToolsetToolRequest{ToolsetName: args[0], Tenant: c.tenant, Global: c.global,
			Capability: args[1], Tool: args[2], Hash: args[3]})
	return c.result(answer.GetToolset(), err, func(w io.Writer) {
		fmt.Fprintf(w, "accepted: %s of %s for the toolset %s\n", args[2], args[1], args[0])
	})
}

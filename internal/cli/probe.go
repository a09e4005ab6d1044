package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/container"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/settings"
)

const probeHelp = `It needs no gateway. It shows the dialects that the container speaks, whether it is ready, and its
tools: from the list of its discovery tool, or from --manifest. It calls only health, discovery and
a tool that does not exist.`

// subject is a container that a command line names, and how to reach it.
type subject struct {
	output
	target   container.Target
	manifest *manifest.Manifest // nil: none is given

	tls       tlsFlags
	manifests *string
}

// addSubject adds the flags for the connection.
func addSubject(c *cobra.Command, std stdio) *subject {
	a, fs := &subject{output: output{stdio: std}}, c.Flags()
	a.tls.add(fs, "")
	a.manifests = fs.String("manifest", "", "manifest.yaml `file` of the capability, or its directory")
	a.addFlags(fs)
	completeOutput(c)
	return a
}

// take reads the address, and the files that the flags name.
func (a *subject) take(addr string) error {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return usageError("%q is not HOST:PORT", addr)
	}
	a.target.Addr = addr
	if a.tls.given() {
		var err error
		if a.target.TLS, err = a.tls.config(); err != nil {
			return err
		}
	}
	if *a.manifests == "" {
		return nil
	}
	all, err := settings.ReadManifests([]string{*a.manifests}, settings.Files{})
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%s has %d manifests; want one", *a.manifests, len(all))
	}
	if err != nil {
		return usageError("--manifest: %w", err)
	}
	a.manifest = all[0]
	return nil
}

// probeReport is the output of capgate probe --json.
type probeReport struct {
	Address    string          `json:"address"`
	TLS        bool            `json:"tls"`
	Problem    *probeProblem   `json:"problem,omitempty"` // why nothing else is known
	Dialects   []probedDialect `json:"dialects"`
	GRPCHealth string          `json:"grpc_health,omitempty"` // of grpc.health.v1, if it is there
	Tools      []probedTool    `json:"tools"`
	ToolsFrom  string          `json:"tools_from,omitempty"`  // "manifest", or the discovery tool
	ToolsError string          `json:"tools_error,omitempty"` // why they are not known
}

type probeProblem struct {
	Kind    container.Kind `json:"kind"`
	Message string         `json:"message"`
}

type probedDialect struct {
	Dialect   string `json:"dialect"`
	Service   string `json:"service"`
	HasHealth bool   `json:"has_health"`
	Ready     bool   `json:"ready"`
	Message   string `json:"message,omitempty"`
}

type probedTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Policy      string `json:"recommended_policy"`
}

// newProbeCommand returns the command capgate probe.
func newProbeCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "probe HOST:PORT", Short: "show the dialects and tools of a capability container",
		Long: probeHelp}
	a := addSubject(c, std)
	timeout := c.Flags().Duration("timeout", 10*time.Second, "give up after this `duration`")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *timeout <= 0 {
			return usageError("--timeout must be more than 0s")
		}
		if err := a.take(args[0]); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), *timeout)
		defer cancel()
		found, status := a.probe(ctx)
		if found.Problem != nil && a.format == tableFormat {
			fmt.Fprintf(std.err, "capgate probe: %s\n", found.Problem.Message)
		}
		if err := a.data(found, func(w io.Writer) { found.print(w, std.out) }); err != nil {
			return err
		}
		return quiet(status)
	}
	return exits(c, "0 the container speaks a dialect and is ready; 1 it does not; 2 wrong command line;\n"+
		"3 no HTTP/2 server can be reached.")
}

// probe calls the container's health check, and reports the result by the exit status as well.
func (a *subject) probe(ctx context.Context) (probeReport, int) {
	p := probeReport{Address: a.target.Addr, TLS: a.target.TLS != nil,
		Dialects: []probedDialect{}, Tools: []probedTool{}}
	if err := a.target.Reach(ctx); err != nil {
		return p.failed(err), exitUnreachable
	}
	conn, err := a.target.Dial()
	if err != nil {
		return p.failed(err), exitUnreachable
	}
	defer func() { _ = conn.Close() }()
	report := container.Probe(ctx, conn)
	p.GRPCHealth = report.GRPCHealth
	for _, s := range report.Spoken {
		p.Dialects = append(p.Dialects, probedDialect{s.Dialect.String(), s.Service, s.Asked, s.Ready, s.Message})
	}
	if len(report.Spoken) == 0 {
		words := p.Address + " speaks gRPC, but no dialect of the capability protocol"
		if report.Silent != "" {
			words = p.Address + " speaks HTTP/2, but does not answer calls: " + report.Silent
		}
		p.Problem = &probeProblem{"no_dialect", words}
		return p, exitRefused
	}
	p.ask(ctx, container.Client{Conn: conn, Dialect: report.Spoken[0].Dialect}, a.manifest)
	if !report.Ready() {
		return p, exitRefused
	}
	return p, 0
}

func (p *probeReport) failed(err error) probeReport {
	p.Problem = &probeProblem{container.Unreachable, err.Error()}
	var why *container.Problem
	if errors.As(err, &why) {
		p.Problem.Kind = why.Kind
	}
	return *p
}

// ask finds out which tools there are.
func (p *probeReport) ask(ctx context.Context, c container.Client, m *manifest.Manifest) {
	tools, err := c.Offers(ctx, m)
	if err != nil {
		p.ToolsError = err.Error()
		return
	}
	p.ToolsFrom = tools.From
	for i := range tools.All {
		t := &tools.All[i]
		p.Tools = append(p.Tools, probedTool{t.Name, t.Description, t.Recommended.String()})
	}
}

// print shows it to people, on the terminal that out is, if it is one.
func (p *probeReport) print(w io.Writer, out any) {
	t := newTable("DIALECT", "SERVICE", "HEALTH", "SAYS").on(out, "")
	for _, d := range p.Dialects {
		health := "no health RPC"
		if d.HasHealth {
			health = map[bool]string{true: "ready", false: "not ready"}[d.Ready]
		}
		t.row(d.Dialect, d.Service, health, d.Message)
	}
	if p.GRPCHealth != "" {
		t.row("", "grpc.health.v1.Health", p.GRPCHealth, "")
	}
	if len(t.rows) > 1 {
		t.print(w)
	}
	t = newTable("TOOL", "RECOMMENDED", "DESCRIPTION").on(out, "")
	for _, tool := range p.Tools {
		t.row(tool.Name, tool.Policy, firstLine(tool.Description))
	}
	switch {
	case len(p.Tools) > 0:
		fmt.Fprintln(w)
		t.print(w)
	case len(p.Dialects) == 0:
	case p.ToolsError != "":
		fmt.Fprintf(w, "\ntools: unknown: %s\n", p.ToolsError)
	default:
		fmt.Fprintf(w, "\ntools: none, by %s\n", p.ToolsFrom)
	}
}

// firstLine returns the beginning of a text, for a table.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return untrusted.Beginning(container.Clean(line), maxWhy)
}

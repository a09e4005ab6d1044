package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/capgate/capgate/internal/container"
	"github.com/capgate/capgate/internal/manifest"
)

const probeUsage = `Usage: capgate probe [flags] HOST:PORT

Shows, without a gateway, the dialects that a capability container speaks, whether it is ready,
and its tools: from the list of its discovery tool, or from --manifest. It calls only health,
discovery and a tool that does not exist.

Exit status: 0 if the container speaks a dialect and is ready; 1 if not; 2 for a wrong command
line; 3 if no HTTP/2 server could be reached.

Flags:
`

// exitNotReady is that of a container that cannot take calls.
const exitNotReady = 1

// subject is a container that a command line names, and how to reach it.
type subject struct {
	target   container.Target
	manifest *manifest.Manifest // nil: none is given
	json     bool

	tls           *bool
	ca, manifests *string
}

// addSubject adds the flags for the connection.
func addSubject(fs *flag.FlagSet) *subject {
	a := new(subject)
	a.tls = fs.Bool("tls", false, "connect with TLS")
	a.ca = fs.String("tls-ca", "",
		"PEM `file` of the certificate authorities to trust instead of the system's; implies --tls")
	a.manifests = fs.String("manifest", "", "manifest.yaml `file` of the capability, or its directory")
	fs.BoolVar(&a.json, "json", false, "print one JSON object")
	return a
}

// take reads the word of the line, and the files that the flags name.
func (a *subject) take(words []string) error {
	if len(words) != 1 {
		return errors.New("want HOST:PORT of a capability container")
	}
	if _, port, err := net.SplitHostPort(words[0]); err != nil || port == "" {
		return fmt.Errorf("%q is not HOST:PORT", words[0])
	}
	a.target.Addr = words[0]
	if *a.tls || *a.ca != "" {
		a.target.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if *a.ca != "" {
		pool, err := certPool(*a.ca, fingerprints{})
		if err != nil {
			return fmt.Errorf("--tls-ca: %w", err)
		}
		a.target.TLS.RootCAs = pool
	}
	if *a.manifests == "" {
		return nil
	}
	all, err := readManifests([]string{*a.manifests}, fingerprints{})
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%s has %d manifests; want one", *a.manifests, len(all))
	}
	if err != nil {
		return fmt.Errorf("--manifest: %w", err)
	}
	a.manifest = all[0]
	return nil
}

// probeReport is what capgate probe --json prints.
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

func runProbe(ctx context.Context, args []string, std stdio) int {
	fs := flag.NewFlagSet("probe", flag.ContinueOnError)
	a := addSubject(fs)
	timeout := fs.Duration("timeout", 10*time.Second, "give up after this `duration`")
	words, status, ok := parseLine(fs, args, 1, probeUsage, std)
	if !ok {
		return status
	}
	err := a.take(words)
	if err == nil && *timeout <= 0 {
		err = errors.New("--timeout must be more than 0s")
	}
	if err != nil {
		return wrongLine(fs, err, std)
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	found, status := a.probe(ctx)
	if a.json {
		_ = json.NewEncoder(std.out).Encode(found) // stdout is gone
		return status
	}
	if found.Problem != nil {
		fmt.Fprintf(std.err, "capgate probe: %s\n", found.Problem.Message)
	}
	found.print(std.out)
	return status
}

// probe asks the container, and answers with the exit status too.
func (a *subject) probe(ctx context.Context) (probeReport, int) {
	p := probeReport{Address: a.target.Addr, TLS: a.target.TLS != nil,
		Dialects: []probedDialect{}, Tools: []probedTool{}}
	if err := a.target.Reach(ctx); err != nil {
		return p.failed(err), exitTransport
	}
	conn, err := a.target.Dial()
	if err != nil {
		return p.failed(err), exitTransport
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
		return p, exitNotReady
	}
	p.ask(ctx, container.Client{Conn: conn, Dialect: report.Spoken[0].Dialect}, a.manifest)
	if !report.Ready() {
		return p, exitNotReady
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

// print shows it to people.
func (p *probeReport) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(p.Dialects) > 0 {
		fmt.Fprintln(w, "DIALECT\tSERVICE\tHEALTH\tSAYS")
	}
	for _, d := range p.Dialects {
		health := "no health RPC"
		if d.HasHealth {
			health = map[bool]string{true: "ready", false: "not ready"}[d.Ready]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", d.Dialect, d.Service, health, orDash(d.Message))
	}
	if p.GRPCHealth != "" {
		fmt.Fprintf(w, "-\tgrpc.health.v1.Health\t%s\t-\n", p.GRPCHealth)
	}
	if len(p.Tools) > 0 {
		fmt.Fprintf(w, "\nTOOL\tRECOMMENDED\tDESCRIPTION\n")
	}
	for _, t := range p.Tools {
		fmt.Fprintf(w, "%s\t%s\t%s\n", t.Name, t.Policy, firstLine(t.Description))
	}
	_ = w.Flush() // stdout is gone
	switch {
	case len(p.Dialects) == 0:
	case p.ToolsError != "":
		fmt.Fprintf(out, "\ntools: unknown: %s\n", p.ToolsError)
	case len(p.Tools) == 0:
		fmt.Fprintf(out, "\ntools: none, by %s\n", p.ToolsFrom)
	}
}

// firstLine is the beginning of a text, for a table.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return beginning(container.Clean(line), maxWhy)
}

// Command capgate is the gateway, and the tools to test, check and call it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// command is one subcommand. It returns the process' exit status.
type command struct {
	name, about string
	run         func(ctx context.Context, args []string, std stdio) int
}

// stdio is where a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func commands() []command {
	return []command{
		{"serve", "run the gateway with a configuration file", runServe},
		{"demo", "run the gateway and two replicas of a weather capability, in one process", runDemo},
		{"check", "check a configuration or manifests",
			func(ctx context.Context, args []string, std stdio) int {
				return runCheck(ctx, args, std.out, std.err)
			}},
		{"invoke", "call a tool through a gateway", func(ctx context.Context, args []string, std stdio) int {
			return runInvoke(ctx, args, std.in, std.out, std.err)
		}},
		{"engines", "talk with OpenParallax engines through a gateway", runEngines},
		{"probe", "show the dialects and tools of a capability container", runProbe},
		{"conform", "check whether a capability container conforms to the protocol", runConform},
		{"status", "show the state of a gateway's fleets and backends", runStatus},
		{"drain", "drain a backend without failing calls, or end the drain", runDrain},
		{"register", "register a backend at a gateway, and keep it registered", runRegister},
		{"policy", "set, list, delete and explain authorization rules", runPolicy},
		{"catalog", "show tools, and accept changed ones", runCatalog},
		{"approvals", "list, approve and deny calls that need approval", runApprovals},
		{"tenants", "create, list, change and delete tenants", runTenants},
		{"keys", "create, list, rotate and revoke API keys of tenants", runKeys},
		{"audit", "verify audit logs", runAudit},
		{"version", "show the version", runVersion},
	}
}

func main() {
	os.Exit(run(untilSignal(), os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// untilSignal ends with the first SIGINT or SIGTERM. From then on the next one ends
// the process at once.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // ends with the process
		<-signals
		signal.Reset(os.Interrupt, syscall.SIGTERM) // before the first signal has any visible effect
		cancel()
	}()
	return ctx
}

func run(ctx context.Context, args []string, std stdio) int {
	if len(args) == 0 {
		usage(std.err)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(std.out)
		return 0
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], std)
		}
	}
	fmt.Fprintf(std.err, "capgate: unknown command %q\n\n", args[0])
	usage(std.err)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "capgate is a gateway for the tools of AI agents.\n\nUsage: capgate COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-9s %s\n", c.name, c.about)
	}
	fmt.Fprint(w, "\ncapgate COMMAND -h describes a command's flags.\n")
}

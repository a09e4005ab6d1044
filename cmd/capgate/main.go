// Command capgate is the gateway, and the tools to try, check and call it.
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
		{"check", "say whether a configuration, or manifests, are in order",
			func(ctx context.Context, args []string, std stdio) int {
				return runCheck(ctx, args, std.out, std.err)
			}},
		{"invoke", "call a tool through a gateway", func(ctx context.Context, args []string, std stdio) int {
			return runInvoke(ctx, args, std.in, std.out, std.err)
		}},
		{"engines", "talk with OpenParallax engines through a gateway", runEngines},
		{"probe", "say which dialects and tools a capability container has", runProbe},
		{"conform", "say whether a capability container keeps to the protocol, rule by rule", runConform},
		{"status", "show a gateway's fleets and backends, and how they are", runStatus},
		{"drain", "take a backend out of its fleets without failing a call, or bring it back", runDrain},
		{"register", "keep a backend known to a gateway", runRegister},
		{"policy", "set, list, delete and explain rules on who may call what", runPolicy},
		{"catalog", "show which tools there are, accept those that have changed", runCatalog},
		{"approvals", "list and answer calls that a person has to approve", runApprovals},
		{"tenants", "make, list, change and delete tenants", runTenants},
		{"keys", "make, list, rotate and revoke API keys of tenants", runKeys},
		{"audit", "say whether an audit log is whole", runAudit},
		{"version", "say which build this is", runVersion},
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
	go func() { // it lives as long as the process
		<-signals
		signal.Reset(os.Interrupt, syscall.SIGTERM) // before anything can tell that the first one came
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

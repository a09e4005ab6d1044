// Command openparallax serves the example engine in cleartext, with an agent that connects to
// it, straight or through a gateway.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/capgate/capgate/examples/openparallax"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "openparallax:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends or somebody shuts the engine down.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("openparallax", flag.ContinueOnError)
	fs.SetOutput(stderr)
	listen := fs.String("listen", ":7001", "`address` to serve gRPC on")
	through := fs.String("agent", "", "`address` that the agent and sub-agents dial; default the engine itself")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	if *through == "" {
		*through = ln.Addr().String()
	}
	fmt.Fprintln(stderr, "openparallax: serving on", ln.Addr())
	return openparallax.Serve(ctx, ln, *through, func(err error) { fmt.Fprintln(stderr, "openparallax:", err) })
}

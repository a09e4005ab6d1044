// Command openparallax serves the example engine in cleartext on loopback, with an agent that dials localhost. A
// gateway may be in between.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/capgate/capgate/examples/openparallax"
	"github.com/capgate/capgate/examples/openparallax/engine"
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

// run serves until ctx ends or a client shuts the engine down.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("openparallax", flag.ContinueOnError)
	fs.SetOutput(stderr)
	port := fs.Int("port", 0, "web.grpc_port: the `port` on loopback; 0, or a port in use: a random one")
	dir := fs.String("dir", "", "`directory` of the recorded sessions; default in memory")
	agents := fs.String("agents", "",
		"`address` that agents dial, which published engines cannot set; default localhost")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	p, err := openparallax.Listen(openparallax.Config{
		Port: *port, Engine: engine.Config{Dir: *dir},
		Failed: func(err error) { fmt.Fprintln(stderr, "openparallax:", err) },
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr, "openparallax: serving on", p.Addr())
	return p.Run(ctx, *agents)
}

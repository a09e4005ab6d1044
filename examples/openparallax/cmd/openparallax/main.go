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
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/examples/openparallax/agent"
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
	conn, err := grpc.NewClient(*through, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	start := func(what string, run func() error) {
		working.Go(func() {
			if err := run(); err != nil {
				fmt.Fprintf(stderr, "openparallax: %s: %v\n", what, err)
			}
		})
	}
	e := engine.New(engine.Config{Spawn: func(token string) {
		start("sub-agent", func() error { return agent.RunSub(ctx, conn, token) })
	}})
	start("agent", func() error { return agent.Run(ctx, conn, agent.Config{}) })
	fmt.Fprintln(stderr, "openparallax: serving on", ln.Addr())
	return e.Serve(ctx, ln)
}

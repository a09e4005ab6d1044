// Command weather serves the demonstration capability over gRPC, in cleartext.
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

	"github.com/capgate/capgate/examples/weather"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "weather:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, then waits for calls in flight.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("weather", flag.ContinueOnError)
	fs.SetOutput(stderr)
	listen := fs.String("listen", ":50051", "`address` to serve gRPC on")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	capability, err := weather.New(weather.Config{})
	if err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr, "weather: serving on", ln.Addr())
	return capability.Serve(ctx, ln)
}

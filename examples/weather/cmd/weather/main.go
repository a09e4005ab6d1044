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
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/capgate/capgate/examples/weather"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	maxMessageBytes = 16 << 20         // the orchestrator's own limit
	stopTimeout     = 10 * time.Second // how long calls in flight may take to end
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

// run serves until ctx ends, then lets the calls in flight finish.
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
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessageBytes))
	docpb.RegisterCapabilityServer(srv, capability)
	reflection.Register(srv)

	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	fmt.Fprintln(stderr, "weather: serving on", ln.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	hard := time.AfterFunc(stopTimeout, srv.Stop)
	defer hard.Stop()
	srv.GracefulStop()
	return <-served
}

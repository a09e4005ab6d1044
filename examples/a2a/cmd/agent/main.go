// Command agent serves an A2A agent over gRPC, in cleartext, or sends a message to one.
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
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"

	"github.com/capgate/capgate/examples/a2a"
	a2apb "github.com/capgate/capgate/proto/lf/a2a/v1"
)

const usage = `Usage: agent [--listen ADDRESS]                           serves an agent
       agent --ask TEXT [--to ADDRESS] [--key-file FILE]  sends a message to an agent, or to a gateway

FILE has the credential for a gateway.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("agent", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() { fmt.Fprint(stderr, usage) }
	listen := fs.String("listen", ":50061", "")
	to := fs.String("to", "localhost:8080", "")
	text := fs.String("ask", "", "")
	keyFile := fs.String("key-file", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case *text != "":
		return ask(ctx, *to, *keyFile, *text, stdout)
	}
	return serve(ctx, *listen, stderr)
}

// serve serves until ctx is done.
func serve(ctx context.Context, address string, stderr io.Writer) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	srv := grpc.NewServer()
	a2apb.RegisterA2AServiceServer(srv, a2a.New())
	reflection.Register(srv)
	fmt.Fprintln(stderr, "agent: serving A2A at", ln.Addr())
	defer context.AfterFunc(ctx, srv.Stop)()
	return srv.Serve(ln)
}

// ask sends a message and prints the events of its task.
func ask(ctx context.Context, address, keyFile, text string, stdout io.Writer) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if keyFile != "" {
		key, err := os.ReadFile(keyFile)
		if err != nil {
			return err
		}
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(key)))
	}
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(ctx, a2a.Ask(text))
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if task := event.GetTask(); task != nil {
			fmt.Fprintln(stdout, task.GetStatus().GetState())
		}
		if changed := event.GetStatusUpdate(); changed != nil {
			fmt.Fprintln(stdout, changed.GetStatus().GetState())
			for _, part := range changed.GetStatus().GetMessage().GetParts() {
				fmt.Fprintln(stdout, part.GetText())
			}
		}
	}
}

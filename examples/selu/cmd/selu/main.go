// Command selu uses one capability as Selu's orchestrator does: it starts or dials its container, waits until it is
// ready, and calls a tool.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/capgate/capgate/examples/selu"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "selu:", err)
		os.Exit(1)
	}
}

// run uses the container, and stops it if it started it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c selu.Container
	fs := flag.NewFlagSet("selu", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: selu [flags] CAPABILITY [TOOL [ARGS]]")
		fs.PrintDefaults()
	}
	fs.StringVar(&c.Host, "host", "127.0.0.1", "`address` of the container")
	fs.IntVar(&c.Port, "port", 50051, "`port` of the container; the orchestrator has no other than 50051")
	fs.StringVar(&c.Session, "session", "", "`id` of the session that the container is for; none: it is shared")
	program := fs.String("start", "", "`program` to start as the container, with this environment's variables")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() < 1 || fs.NArg() > 3 {
		fs.Usage()
		return errors.New("want CAPABILITY, and optionally TOOL with ARGS")
	}
	c.Capability = fs.Arg(0)
	if *program != "" {
		ctx, cancel := context.WithCancel(ctx)
		container, err := selu.Start(ctx, c, os.Environ(), *program) //nolint:forbidigo // an image's variables
		if err != nil {
			cancel()
			return err
		}
		defer end(container, cancel)
	}
	client, err := selu.Dial(c)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return use(ctx, client, fs.Args()[1:], stdout)
}

// end stops a container and waits for it.
func end(container *exec.Cmd, cancel context.CancelFunc) {
	cancel()
	_ = container.Wait() // it was interrupted
}

// use waits for the capability, and calls the tool if one is named.
func use(ctx context.Context, client *selu.Client, call []string, stdout io.Writer) error {
	if err := client.WaitReady(ctx); err != nil {
		return err
	}
	if len(call) == 0 {
		fmt.Fprintln(stdout, "ready")
		return nil
	}
	q := selu.Call{Tool: call[0]}
	if len(call) > 1 {
		q.Args = call[1]
	}
	result, err := client.Invoke(ctx, q)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n", result)
	return nil
}

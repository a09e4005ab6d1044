// Package cli has the commands of capgate: it reads command lines and prints the results.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc/grpclog"
)

// stdio holds the standard streams of a command.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// Main runs the command line of the process, and returns its exit status.
func Main() int {
	silenceGRPC()
	return run(untilSignal(), os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr})
}

// silenceGRPC drops what gRPC's packages print by themselves, such as a client that left before its response was
// written: the lines are not in the format of the log. GRPC_GO_LOG_SEVERITY_LEVEL, if set, keeps them.
func silenceGRPC() {
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" {
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	}
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

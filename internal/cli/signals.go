// Package cli has the commands of capgate: it reads command lines and prints the results.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// stdio is where a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// Main runs the command line of the process, and returns its exit status.
func Main() int {
	return run(untilSignal(), os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr})
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

package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

// TestAsksThroughAGateway follows the README, with a gateway in the process.
func TestAsksThroughAGateway(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"--listen", "127.0.0.1:0"}, io.Discard, w) }()
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "counter", Services: []string{"lf.a2a.v1.A2AService"},
		Backends:  []string{strings.TrimSpace(line[strings.LastIndex(line, " "):])},
		Deadlines: router.Deadlines{Off: true},
	}}})
	var stdout strings.Builder
	if err := run(t.Context(), []string{"--ask", "one two three", "--to", g.Addr}, &stdout, io.Discard); err != nil ||
		stdout.String() != "TASK_STATE_WORKING\nTASK_STATE_COMPLETED\n3 words\n" {
		t.Errorf("%v: %s", err, stdout.String())
	}
	cancel()
	if err := check.Received(t, ended, "the program to stop"); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"extra"}, {"--no-such-flag"}, {"--listen", "not an address"},
		{"--ask", "x", "--key-file", "/nowhere/key"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

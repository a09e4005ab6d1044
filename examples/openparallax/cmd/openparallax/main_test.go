package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/internal/testkit/clienttest"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestServesUntilShutDown: the agent, and the sub-agents that it has started, reach the engine.
func TestServesUntilShutDown(t *testing.T) {
	t.Parallel()
	stderr, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(context.WithoutCancel(t.Context()), []string{"--dir", t.TempDir()}, w) }()
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSpace(line[strings.LastIndex(line, " "):])
	conn, err := clienttest.NewConn(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := openparallaxv1.NewClientServiceClient(conn)
	for last := ""; !strings.HasPrefix(last, "did sums"); {
		stream, err := client.SendMessage(t.Context(),
			&openparallaxv1.ClientMessageRequest{SessionId: "s", Content: "delegate: sums"})
		if err != nil {
			t.Fatal(err)
		}
		for {
			event, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			last = event.GetResponseComplete().GetContent()
			// The agent may not have connected yet.
			if e := event.GetPipelineError(); e != nil && e.GetCode() != "AGENT_UNAVAILABLE" {
				t.Fatal(e)
			}
		}
	}
	if _, err := client.Shutdown(t.Context(), &openparallaxv1.ShutdownRequest{}); err != nil {
		t.Error(err)
	}
	if err := check.Received(t, ended, "the program to stop"); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"extra"}, {"--no-such-flag"}, {"--port", "not a port"}, {"--dir", "/not/there"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

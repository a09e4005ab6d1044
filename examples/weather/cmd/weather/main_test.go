package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"

	"github.com/capgate/capgate/internal/testkit/check"
)

func TestServesUntilToldToStop(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"--listen", "127.0.0.1:0"}, w) }()
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
	resp, err := docpb.NewCapabilityClient(conn).Healthcheck(t.Context(), &docpb.HealthRequest{})
	if err != nil || !resp.GetReady() {
		t.Fatalf("got %v, %v", resp, err)
	}
	cancel()
	if err := check.Received(t, ended, "the program to stop"); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"extra"}, {"--no-such-flag"}, {"--listen", "not an address"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

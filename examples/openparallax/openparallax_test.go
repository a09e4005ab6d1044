package openparallax_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax"
	"github.com/capgate/capgate/internal/testkit/check"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// gateway stands in for the engine: it ends each stream with the next of its statuses.
type gateway struct {
	openparallaxv1.UnimplementedAgentServiceServer

	ends chan error

	mu     sync.Mutex
	agents []string // ids of the agents that connected
}

func (g *gateway) RunSession(stream openparallaxv1.AgentService_RunSessionServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.agents = append(g.agents, first.GetReady().GetAgentId())
	g.mu.Unlock()
	return <-g.ends
}

// run runs an engine whose agent dials addr until its supervision ends, and returns the agent's errors.
func run(t *testing.T, ends ...error) (g *gateway, failed []error) {
	t.Helper()
	g = &gateway{ends: make(chan error, len(ends))}
	for _, err := range ends {
		g.ends <- err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	openparallaxv1.RegisterAgentServiceServer(server, g)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	errs := make(chan error, 10)
	p, err := openparallax.Listen(openparallax.Config{Pause: func(context.Context) {},
		Failed: func(err error) { errs <- err }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, ln.Addr().String()) }()
	check.Received(t, p.Quit(), "the agent to quit or to be given up")
	cancel()
	if err := check.Received(t, ended, "the program to stop"); err != nil {
		t.Error(err)
	}
	close(errs)
	for err := range errs {
		failed = append(failed, err)
	}
	return g, failed
}

// TestAgentsAreGivenUp: an agent is given up after three failures, and never restarted after its stream has ended with
// OK.
func TestAgentsAreGivenUp(t *testing.T) {
	t.Parallel()
	refused := status.Error(codes.Unavailable, "no engine")
	g, failed := run(t, refused, refused, refused, nil)
	if len(g.agents) != 3 || len(failed) != 4 || !errors.Is(failed[3], openparallax.ErrGivenUp) ||
		status.Code(errors.Unwrap(failed[0])) != codes.Unavailable {
		t.Errorf("%d agents, which failed: %v", len(g.agents), failed)
	}
	if _, token, ok := strings.Cut(g.agents[0], ":"); !ok || token == "" || g.agents[1] != g.agents[0] {
		t.Errorf("agents %q; ok %+v; token %+v", g.agents, ok, token)
	}
	g, failed = run(t, refused, nil, refused)
	if len(g.agents) != 2 || len(failed) != 1 {
		t.Errorf("%d agents, which failed: %v", len(g.agents), failed)
	}
}

// TestPorts: an engine listens only on loopback, on another port if its own is in use.
func TestPorts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	port := taken.Addr().(*net.TCPAddr).Port
	for _, hosts := range []openparallax.Hosts{nil, {loopback}, {netip.IPv6Loopback(), loopback}} {
		p, err := openparallax.Listen(openparallax.Config{Port: port, Hosts: hosts})
		if err != nil {
			t.Fatal(err)
		}
		if at := p.Addr(); !at.IP.IsLoopback() || at.Port == port || hosts != nil && at.IP.String() != "127.0.0.1" {
			t.Errorf("%v: at %v", hosts, at)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Run(ctx, ""); err != nil {
			t.Error(err)
		}
	}
}

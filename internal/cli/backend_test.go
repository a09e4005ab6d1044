package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Output of a backend process.
const (
	deliveredLine  = "call "         // with the arguments, before the response
	askedLine      = "asked\n"       // a health check before the backend was ready
	readyLine      = "ready\n"       // a health check once it is ready
	startsSlowly   = "STARTS_SLOWLY" // environment variable: not ready before SIGUSR1
	listeningLine  = "listening\n"
	notReadyReason = "still starting"
)

// holdTool runs until its caller cancels it. The other tools return their arguments.
const holdTool = "hold"

// backend runs a capability until SIGTERM, then waits for calls in flight.
func backend(addr string) int {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	b := &backendService{}
	b.ready.Store(os.Getenv(startsSlowly) == "")
	server := grpc.NewServer()
	docpb.RegisterCapabilityServer(server, b)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	var stopping sync.WaitGroup
	stopping.Go(func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				server.GracefulStop()
				return
			}
			fmt.Print(readyLine)
			b.ready.Store(true)
		}
	})
	fmt.Print(listeningLine)
	if err := server.Serve(listener); err != nil {
		fmt.Println(err)
		return 1
	}
	stopping.Wait()
	return 0
}

type backendService struct {
	docpb.UnimplementedCapabilityServer
	ready atomic.Bool
}

func (b *backendService) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	if !b.ready.Load() {
		fmt.Print(askedLine)
		return &docpb.HealthResponse{Message: notReadyReason}, nil
	}
	return &docpb.HealthResponse{Ready: true}, nil
}

func (b *backendService) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	fmt.Print(deliveredLine + string(req.GetArgsJson()) + "\n") // one write, which is not split
	if !b.ready.Load() {
		return nil, status.Error(codes.Unavailable, notReadyReason)
	}
	if req.GetToolName() == holdTool {
		<-ctx.Done()
	}
	return &docpb.InvokeResponse{ResultJson: req.GetArgsJson()}, nil
}

// startBackend runs a backend in a process of its own. It returns when the backend listens.
func startBackend(t *testing.T, addr string, env ...string) *program {
	t.Helper()
	p := launch(t, selfCommand(t, "backend", env, addr))
	p.stdout.wait(t, p, listeningLine)
	return p
}

// deliveries counts the calls that reached a backend.
func deliveries(into map[string]int, p *program) {
	for line := range strings.Lines(p.stdout.String()) {
		if id, ok := strings.CutPrefix(line, deliveredLine); ok {
			into[strings.Trim(id, "\"\n")]++
		}
	}
}

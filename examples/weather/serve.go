package weather

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	maxMessageBytes = 16 << 20         // the orchestrator's own limit
	stopTimeout     = 10 * time.Second // for calls in flight at the end
)

// Serve serves the capability over gRPC in cleartext until ctx ends, then waits for calls in flight. It closes ln.
func (c *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessageBytes))
	docpb.RegisterCapabilityServer(srv, c)
	reflection.Register(srv)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
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

package gatewaytest

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Gated is a capability whose responses come from the test, piece by piece. It handles one call at a time.
type Gated struct {
	docpb.UnimplementedCapabilityServer
	pieces chan string
}

// ServeGated serves a Gated until the test ends.
func ServeGated(t testing.TB) (g *Gated, address string) {
	t.Helper()
	g = &Gated{pieces: make(chan string)}
	return g, Serve(t, func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, g) }).Addr
}

// Say passes a piece of the response to the running call; "" ends a stream. It returns when the call has received the
// piece.
func (g *Gated) Say(t testing.TB, piece string) {
	t.Helper()
	select {
	case g.pieces <- piece:
	case <-time.After(check.Patience):
		t.Errorf("no call takes %q", piece)
	}
}

// Healthcheck implements docpb.CapabilityServer.
func (*Gated) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

// Invoke implements docpb.CapabilityServer.
func (g *Gated) Invoke(ctx context.Context, _ *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	select {
	case piece := <-g.pieces:
		return &docpb.InvokeResponse{ResultJson: []byte(piece)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// StreamInvoke implements docpb.CapabilityServer.
func (g *Gated) StreamInvoke(_ *docpb.InvokeRequest, s grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	for {
		select {
		case piece := <-g.pieces:
			if err := s.Send(&docpb.InvokeChunk{Data: []byte(piece), Done: piece == ""}); err != nil || piece == "" {
				return err
			}
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

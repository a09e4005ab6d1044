package health_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"

	"github.com/capgate/capgate/internal/testkit/check"
)

// answer is a backend's reply to a health check.
type answer struct {
	ready   bool
	message string
	code    codes.Code // not OK: the call fails
	hang    bool       // no reply until the client cancels
}

// backend is a capability that implements only Healthcheck. Its answer can be changed while it
// runs.
type backend struct {
	answer atomic.Pointer[answer]
	asked  atomic.Int64
	seen   func() // called for each check; may be nil
}

func newBackend(a answer) *backend {
	b := &backend{}
	b.answer.Store(&a)
	return b
}

func (b *backend) check(ctx context.Context) (ready bool, message string, err error) {
	b.asked.Add(1)
	if b.seen != nil {
		b.seen()
	}
	a := b.answer.Load()
	if a.hang {
		<-ctx.Done()
		// In a bubble the deadlines of the caller and of this server end at the same instant, in any order.
		return false, "", status.FromContextError(ctx.Err()).Err()
	}
	if a.code != codes.OK {
		return false, "", status.Error(a.code, a.message)
	}
	return a.ready, a.message, nil
}

type docServer struct {
	docpb.UnimplementedCapabilityServer
	*backend
}

func (s docServer) Healthcheck(ctx context.Context, _ *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	ready, message, err := s.check(ctx)
	return &docpb.HealthResponse{Ready: ready, Message: message}, err
}

type liveServer struct {
	livepb.UnimplementedCapabilityServer
	*backend
}

func (s liveServer) Healthcheck(ctx context.Context, _ *livepb.HealthRequest) (*livepb.HealthResponse, error) {
	ready, message, err := s.check(ctx)
	return &livepb.HealthResponse{Ready: ready, Message: message}, err
}

type legacyServer struct {
	legacypb.UnimplementedCapabilityServiceServer
	*backend
}

func (s legacyServer) HealthCheck(ctx context.Context, _ *legacypb.HealthCheckRequest) (
	*legacypb.HealthCheckResponse, error) {
	ready, _, err := s.check(ctx)
	return &legacypb.HealthCheckResponse{Healthy: ready}, err
}

// doc registers the service of the doc dialect. The functions below register the other services of backends.
func doc(b *backend) func(*grpc.Server) {
	return func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, docServer{backend: b}) }
}

func live(b *backend) func(*grpc.Server) {
	return func(s *grpc.Server) { livepb.RegisterCapabilityServer(s, liveServer{backend: b}) }
}

func legacy(b *backend) func(*grpc.Server) {
	return func(s *grpc.Server) { legacypb.RegisterCapabilityServiceServer(s, legacyServer{backend: b}) }
}

func standard(st healthpb.HealthCheckResponse_ServingStatus) func(*grpc.Server) {
	return func(s *grpc.Server) {
		h := grpchealth.NewServer()
		h.SetServingStatus("", st)
		healthpb.RegisterHealthServer(s, h)
	}
}

// listen starts a server with services on a free port until the test ends.
func listen(t *testing.T, opts []grpc.ServerOption, services ...func(*grpc.Server)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	serve(t, ln, opts, services...)
	return ln.Addr().String()
}

func serve(t *testing.T, ln net.Listener, opts []grpc.ServerOption, services ...func(*grpc.Server)) *grpc.Server {
	t.Helper()
	s := grpc.NewServer(opts...)
	for _, register := range services {
		register(s)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ln) // ends when the server is stopped
	}()
	t.Cleanup(func() {
		s.Stop()
		check.Received(t, done, "the server to stop")
	})
	return s
}

package grpcservice

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/lib/grpcerror"
)

const (
	healthPath = "/grpc.health.v1.Health/Check"
	maxReply   = 64 << 10 // bytes of a response to a probe
)

// probe is the health check of the backends of a fleet.
type probe struct {
	services   *Services
	capability string
}

// Probe returns the health check of a fleet's backends.
func (s *Services) Probe(capability string) health.Question { return probe{s, capability} }

// Probe implements health.Question.
func (p probe) Probe(ctx context.Context, conn grpc.ClientConnInterface) (health.Result, error) {
	return p.services.ask(ctx, p.capability, conn)
}

// ask asks for grpc.health.v1. A backend without it, or without the whole-server name "", has at least answered. Where
// the fleet needs server reflection, that must answer as well.
func (s *Services) ask(ctx context.Context, capability string, conn grpc.ClientConnInterface) (health.Result, error) {
	f := s.fleet(capability)
	if f == nil {
		return health.Result{Reason: errGone.Error()}, nil
	}
	ctx = metadata.NewOutgoingContext(ctx, f.metadata())
	var reply healthpb.HealthCheckResponse
	err := conn.Invoke(ctx, healthPath, &healthpb.HealthCheckRequest{}, &reply)
	reason := "grpc.health.v1: " + reply.GetStatus().String()
	switch code := status.Code(err); {
	case code == codes.OK:
		if reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			return health.Result{Reason: reason}, nil
		}
	case grpcerror.Unimplemented(err), code == codes.NotFound:
		reason = "connected; the backend implements no health call"
	default:
		return health.Result{}, err
	}
	if f.Definitions != nil {
		return health.Result{OK: true, Reason: reason}, nil
	}
	err = withReflection(ctx, conn, maxReply, func(r *reflection) error {
		_, err := r.exchange(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		if status.Code(err) == codes.ResourceExhausted { // it is a long list
			return nil
		}
		return err
	})
	if err == errNoReflection { //nolint:errorlint // it is not wrapped
		return health.Result{Reason: err.Error()}, nil
	}
	if err != nil {
		return health.Result{}, err
	}
	return health.Result{OK: true, Reason: reason}, nil
}

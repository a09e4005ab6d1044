package grpcservice

import (
	"cmp"
	"context"
	"slices"
	"strings"

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
	missing := ""
	err = withReflection(ctx, conn, maxReply, func(r *reflection) error {
		listed, err := r.exchange(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		if status.Code(err) == codes.ResourceExhausted { // it is a long list
			return nil
		}
		missing = missingOf(f.Methods, listed.GetListServicesResponse().GetService())
		return err
	})
	if err == errNoReflection { //nolint:errorlint // it is not wrapped
		return health.Result{Reason: err.Error()}, nil
	}
	if err != nil {
		return health.Result{}, err
	}
	if missing != "" {
		return health.Result{Reason: missing}, nil
	}
	return health.Result{OK: true, Reason: reason}, nil
}

// missingOf returns what is wrong with a backend that lists none of the services whose methods are tools; "": it has
// one of them, or lists nothing.
func missingOf(methods []string, listed []*reflectionpb.ServiceResponse) string {
	var own []string
	for _, s := range listed {
		own = append(own, s.GetName())
	}
	own = slices.DeleteFunc(own, func(name string) bool { return strings.HasPrefix(name, "grpc.") })
	if len(listed) == 0 || len(methods) == 0 {
		return ""
	}
	first := ""
	for _, entry := range methods {
		service, _, _ := strings.Cut(entry, "/")
		if slices.Contains(own, service) {
			return ""
		}
		first = cmp.Or(first, service)
	}
	if len(own) == 0 {
		return "the backend has no service " + first + ", and no other one"
	}
	return "the backend has no service " + first + ", whose methods are the fleet's; it has " + slices.Min(own)
}

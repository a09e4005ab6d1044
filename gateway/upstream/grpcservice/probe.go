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
	"google.golang.org/protobuf/types/descriptorpb"

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

// Probe implements health.Question.
func (p probe) Probe(ctx context.Context, conn grpc.ClientConnInterface) (health.Result, error) {
	return p.services.ask(ctx, p.capability, conn)
}

// ask calls grpc.health.v1. A backend without it, or without the whole-server name "", has at least responded. If the
// fleet needs server reflection, that must respond too.
func (s *Services) ask(ctx context.Context, capability string, conn grpc.ClientConnInterface) (health.Result, error) {
	f := s.Fleet(capability)
	if f == nil {
		return health.Result{Reason: errGone.Error()}, nil
	}
	md, err := asserted(ctx, s.Fleets, f)
	if err != nil {
		return health.Result{Reason: err.Error()}, nil
	}
	ctx = metadata.NewOutgoingContext(ctx, md)
	var reply healthpb.HealthCheckResponse
	err = conn.Invoke(ctx, healthPath, &healthpb.HealthCheckRequest{}, &reply)
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
	var has serving
	err = withReflection(ctx, conn, maxReply, func(r *reflection) error {
		has, err = r.serving(settingsOf(f).Methods)
		return err
	})
	switch {
	case err == nil && has.wrong != "":
		return health.Result{Reason: health.WrongService(has.wrong, "")}, nil
	case err == nil && has.incomplete != "":
		return health.Result{OK: true, Reason: health.Incomplete(has.incomplete)}, nil
	case err == nil, definitionsOf(f) != nil: // reflection is not required
		return health.Result{OK: true, Reason: reason}, nil
	case err == errNoReflection: //nolint:errorlint // never wrapped
		return health.Result{Reason: health.WrongService(err.Error(), "")}, nil
	}
	return health.Result{}, err
}

// serving describes how a backend differs from its fleet.
type serving struct {
	wrong      string // why it has none of the methods; empty means it may have some
	incomplete string // methods that it lacks; empty means none are known
}

// serving determines which of the methods a backend has.
func (r *reflection) serving(methods []string) (serving, error) {
	listed, err := r.exchange(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	if status.Code(err) == codes.ResourceExhausted { // the list is too long
		return serving{}, nil
	}
	if err != nil {
		return serving{}, err
	}
	if wrong := missingOf(methods, listed.GetListServicesResponse().GetService()); wrong != "" {
		return serving{wrong: wrong}, nil
	}
	var lacks []string
	for _, entry := range methods {
		service, method, _ := strings.Cut(entry, "/")
		if method == "*" {
			continue
		}
		has, known, err := r.methods(service)
		if err != nil {
			return serving{}, err
		}
		if known && !slices.Contains(has, method) {
			lacks = append(lacks, "no method "+entry+"; it has "+strings.Join(has[:min(len(has), maxNamed)], ", "))
		}
	}
	switch {
	case len(lacks) == 0:
		return serving{}, nil
	case len(lacks) == len(methods):
		return serving{wrong: "the backend has " + lacks[0]}, nil
	}
	return serving{incomplete: "the backend has " + lacks[0]}, nil
}

// maxNamed is the maximum number of a service's methods in a reason.
const maxNamed = 4

// methods returns the sorted methods of a service. known is false if its description is unreadable or too long.
func (r *reflection) methods(service string) (names []string, known bool, _ error) {
	find := func() *descriptorpb.ServiceDescriptorProto {
		for _, file := range r.files {
			for _, s := range file.GetService() {
				if fullName(file, s) == service {
					return s
				}
			}
		}
		return nil
	}
	found := find()
	if found == nil {
		_, err := r.ask(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}})
		if r.over(err) {
			return nil, false, err
		}
		found = find()
	}
	for _, m := range found.GetMethod() {
		names = append(names, m.GetName())
	}
	slices.Sort(names)
	return names, found != nil, nil
}

// missingOf returns the error of a backend that lists none of the services whose methods are tools; empty means it has
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
	return "the backend has no service " + first + ", which grpc_service.methods lists; it has " + slices.Min(own)
}

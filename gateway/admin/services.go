package admin

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// maxRequest bounds a request, in bytes.
const maxRequest = 16 << 10

// Service is one gRPC service of the admin API. The annotations of its methods name its JSON routes.
type Service struct {
	GRPC func(*grpc.Server)
	JSON func(context.Context, *runtime.ServeMux) error
	// Serve has the JSON of methods that are streams, by their full names.
	Serve map[string]runtime.HandlerFunc
	Large map[string]int // additional bytes of a method's request, before JSON escapes them, by the full name
}

// NewService returns a service whose functions are the generated ones of an implementation.
func NewService[S any](of S, register func(grpc.ServiceRegistrar, S),
	handle func(context.Context, *runtime.ServeMux, S) error) Service {
	return Service{
		GRPC: func(g *grpc.Server) { register(g, of) },
		JSON: func(ctx context.Context, mux *runtime.ServeMux) error { return handle(ctx, mux, of) },
	}
}

// Services are gRPC services with their JSON routes.
type Services struct {
	grpc     *grpc.Server
	patterns map[string]http.Handler
}

// NewServices returns Services. The function status is the gateway's table of gRPC codes for
// refusals, and of HTTP statuses for these.
func NewServices(toStatus func(*call.Refusal) *status.Status,
	all ...Service) (*Services, error) {
	options := append(recovery.Options("operators"), guard.ServerOptions(toStatus)...)
	s := &Services{grpc: grpc.NewServer(append(options, grpc.MaxRecvMsgSize(maxRequest))...),
		patterns: map[string]http.Handler{}}
	for _, service := range all {
		service.GRPC(s.grpc)
	}
	refused := func(w http.ResponseWriter, r *http.Request, refusal *call.Refusal) {
		w.Header().Set("Cache-Control", "no-store")
		problem.Write(w, r, problem.Of(toStatus(refusal).Err()))
	}
	// An error without details is not from a server: the request could not be parsed.
	failed := func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter,
		r *http.Request, err error) {
		if st := status.Convert(err); st.Code() == codes.InvalidArgument && len(st.Details()) == 0 {
			err = toStatus(unreadable(st.Message())).Err()
		}
		rest.WriteProblem(w, r, err)
	}
	methods, err := guard.JSONRoutes(slices.Collect(maps.Keys(s.grpc.GetServiceInfo())))
	if err != nil {
		return nil, err
	}
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newMarshaler()),
		runtime.WithErrorHandler(failed),
		runtime.WithMiddlewares(guard.JSON(methods, refused)),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(), // a form is JSON here, because curl -d sends that content type
		runtime.WithWriteContentLength(),
	)
	large := map[string]int{}
	for _, service := range all {
		if err := service.JSON(context.Background(), mux); err != nil {
			return nil, fmt.Errorf("register JSON routes: %w", err)
		}
		for route, method := range methods {
			if serve, ok := service.Serve[method]; ok { // later handlers precede
				verb, template, _ := strings.Cut(route, " ")
				if err := mux.HandlePath(verb, template, serve); err != nil {
					return nil, fmt.Errorf("register %s: %w", route, err)
				}
			}
		}
		for method, bytes := range service.Large {
			large[method] = bytes
			server := grpc.NewServer(append(slices.Clone(options), grpc.MaxRecvMsgSize(maxRequest+bytes))...)
			service.GRPC(server)
			s.patterns["POST "+method] = server
		}
	}
	bounds := map[string]int{}
	for route, method := range methods {
		pattern := patternOf(route)
		bounds[pattern] = max(bounds[pattern], maxRequest+2*large[method]) // JSON may escape each byte
	}
	for pattern, bytes := range bounds {
		s.patterns[pattern] = http.MaxBytesHandler(mux, int64(bytes))
	}
	reflection.Register(s.grpc)
	return s, nil
}

// patternOf returns the pattern of http.ServeMux for a JSON route. Segments with variables match anything, as ServeMux
// cannot tell custom methods apart, which follow a colon.
func patternOf(route string) string {
	segments := strings.Split(route, "/")
	for i, s := range segments {
		if strings.Contains(s, "{") {
			segments[i] = fmt.Sprintf("{segment%d}", i)
		}
	}
	return strings.Join(segments, "/")
}

// Mount adds the services to a mux.
func (s *Services) Mount(mux *guard.Mux) {
	for p, handler := range s.patterns {
		mux.HandleRPC(p, handler)
	}
	for service, info := range s.grpc.GetServiceInfo() {
		mux.HandleRPC("POST /"+service+"/", s.grpc)
		for _, method := range info.Methods {
			mux.HandleMethods("/" + service + "/" + method.Name)
		}
	}
}

// ofQuery finds the parameter in an error of grpc-gateway.
var ofQuery = regexp.MustCompile(`^parsing field "([a-z_]+)": `)

// unreadable is the refusal of a request that grpc-gateway cannot read, by its error.
func unreadable(why string) *call.Refusal {
	if field := ofQuery.FindStringSubmatch(why); field != nil {
		return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_QUERY",
			Message: "the query is invalid: the value of " + field[1] + " has the wrong type"}
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_BODY",
		Message: "the body is invalid: " + problem.WithoutValue(why)}
}

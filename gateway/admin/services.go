package admin

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"

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

// Large is a method with a larger bound of its requests.
type Large struct {
	Method  string // /package.Service/Method
	Pattern string // pattern of its JSON route
	Bytes   int    // additional bytes, before JSON escapes them
}

// Service is one gRPC service of the admin API, with its JSON routes.
type Service struct {
	GRPC     func(*grpc.Server)
	JSON     func(context.Context, *JSONMux) error
	Patterns []string // patterns of its JSON routes, as of http.ServeMux
	Large    []Large
}

// JSONMux has the JSON routes of the services. Routes that HandlePath adds beside the methods of gRPC services need rows
// in the guard's table.
type JSONMux struct {
	*runtime.ServeMux
	routes []string // of HandlePath, as in "GET /v1/calls/events"
}

// HandlePath registers a handler for a pattern.
func (m *JSONMux) HandlePath(method, pattern string, h runtime.HandlerFunc) error {
	m.routes = append(m.routes, method+" "+guard.JSONPattern(pattern))
	return m.ServeMux.HandlePath(method, pattern, h)
}

// Services are gRPC services with their JSON routes.
type Services struct {
	grpc     *grpc.Server
	patterns map[string]http.Handler
	routes   []string // JSON routes beside those of gRPC methods
}

// NewServices returns Services. The functions status and httpStatus are the gateway's tables of gRPC codes for
// refusals, and of HTTP statuses for these.
func NewServices(toStatus func(*call.Refusal) *status.Status, httpStatus func(codes.Code) int,
	all ...Service) (*Services, error) {
	options := append(recovery.Options("operators"), guard.ServerOptions(toStatus)...)
	s := &Services{grpc: grpc.NewServer(append(options, grpc.MaxRecvMsgSize(maxRequest))...),
		patterns: map[string]http.Handler{}}
	for _, service := range all {
		service.GRPC(s.grpc)
	}
	refused := func(w http.ResponseWriter, r *http.Request, refusal *call.Refusal) {
		w.Header().Set("Cache-Control", "no-store")
		problem.Write(w, r, problem.Of(toStatus(refusal).Err(), httpStatus))
	}
	// An error without details is not from a server: the request could not be parsed.
	failed := func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter,
		r *http.Request, err error) {
		if st := status.Convert(err); st.Code() == codes.InvalidArgument && len(st.Details()) == 0 {
			err = toStatus(unreadable(st.Message())).Err()
		}
		rest.WriteProblem(w, r, err, httpStatus)
	}
	methods, err := guard.JSONRoutes(slices.Collect(maps.Keys(s.grpc.GetServiceInfo())))
	if err != nil {
		return nil, err
	}
	mux := &JSONMux{ServeMux: runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newMarshaler()),
		runtime.WithErrorHandler(failed),
		runtime.WithMiddlewares(guard.JSON(methods, refused)),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(), // a form is JSON here, because curl -d sends that content type
		runtime.WithWriteContentLength(),
	)}
	for _, service := range all {
		if err := service.JSON(context.Background(), mux); err != nil {
			return nil, fmt.Errorf("register the routes of %v: %w", service.Patterns, err)
		}
		for _, pattern := range service.Patterns {
			s.patterns[pattern] = http.MaxBytesHandler(mux, maxRequest)
		}
		for _, l := range service.Large {
			server := grpc.NewServer(append(slices.Clone(options), grpc.MaxRecvMsgSize(maxRequest+l.Bytes))...)
			service.GRPC(server)
			s.patterns["POST "+l.Method] = server
			// JSON may escape each byte
			s.patterns[l.Pattern] = http.MaxBytesHandler(mux, maxRequest+2*int64(l.Bytes))
		}
	}
	s.routes = mux.routes
	reflection.Register(s.grpc)
	return s, nil
}

// Mount adds the services to a mux.
func (s *Services) Mount(mux *guard.Mux) {
	for p, handler := range s.patterns {
		mux.HandleRPC(p, handler)
	}
	mux.HandleMethods(s.routes...)
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

package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// maxRequest is the default size limit of a request, in bytes.
const maxRequest = 16 << 10

// Service is a gRPC service of the admin API. The annotations of its methods define its JSON routes.
type Service struct {
	GRPC func(grpc.ServiceRegistrar)
	JSON func(context.Context, *runtime.ServeMux) error
	// Serve holds the JSON handlers of streaming methods, by their full names.
	Serve map[string]runtime.HandlerFunc
	Body  int            // size limit of the bodies of its JSON routes, in bytes; default 16 KiB
	Large map[string]int // by full name: additional bytes of a method's request, before JSON escapes them
	// Unreadable returns the refusal of an invalid query parameter or, for "", of an invalid body. It is optional; nil
	// means the standard refusal.
	Unreadable func(parameter string) *call.Refusal
	NoStore    bool // responses of its JSON routes contain secrets and must not be stored
	// Fault returns the refusal for an error that is neither a refusal nor a status; optional.
	Fault func(error) *call.Refusal
}

// NewService returns the service of an implementation with its generated functions. Its methods return refusals.
func NewService[S any](of S, register func(grpc.ServiceRegistrar, S),
	handle func(context.Context, *runtime.ServeMux, S) error) Service {
	return Service{
		GRPC: func(g grpc.ServiceRegistrar) { register(g, of) },
		JSON: func(ctx context.Context, mux *runtime.ServeMux) error { return handle(ctx, mux, of) },
	}
}

// serviceOf returns the service of a JSON request by the path of its method, or an empty one if no route was found.
func serviceOf(ctx context.Context, services map[string]*Service) *Service {
	method, _ := runtime.RPCMethod(ctx)
	if s := services[path.Dir(method)]; s != nil {
		return s
	}
	return new(Service)
}

// setHeaders sets the response headers of the service's JSON routes.
func (s *Service) setHeaders(head http.Header) {
	if s.NoStore {
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cache-Control", "no-store")
	}
}

// register adds the service to a server.
func (s *Service) register(g *grpc.Server) { s.GRPC(status.Registrar(g, s.Fault)) }

// Services is a set of gRPC services with their JSON routes.
type Services struct {
	grpc     *grpc.Server
	patterns map[string]http.Handler
	routes   []jsonRoute
}

// NewServices returns Services.
func NewServices(all ...Service) (*Services, error) {
	options := slices.Concat(recovery.Options("operators"), guard.ServerOptions())
	s := &Services{grpc: grpc.NewServer(append(options, grpc.MaxRecvMsgSize(maxRequest))...),
		patterns: map[string]http.Handler{}}
	of := map[string]*Service{} // by path
	for i := range all {
		all[i].register(s.grpc)
		for name := range s.grpc.GetServiceInfo() {
			if of["/"+name] == nil {
				of["/"+name] = &all[i]
			}
		}
	}
	methods, err := guard.JSONRoutes(slices.Collect(maps.Keys(s.grpc.GetServiceInfo())))
	if err != nil {
		return nil, err
	}
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newMarshaler()),
		runtime.WithErrorHandler(failed(of)),
		runtime.WithForwardResponseOption(func(ctx context.Context, w http.ResponseWriter, _ proto.Message) error {
			serviceOf(ctx, of).setHeaders(w.Header())
			return nil
		}),
		runtime.WithRoutingErrorHandler(unrouted),
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
			if serve, ok := service.Serve[method]; ok { // later handlers take precedence
				verb, template, _ := strings.Cut(route, " ")
				if err := mux.HandlePath(verb, template, withoutHEAD(serve)); err != nil {
					return nil, fmt.Errorf("register %s: %w", route, err)
				}
			}
		}
		for method, bytes := range service.Large {
			large[method] = bytes
			server := grpc.NewServer(append(slices.Clone(options), grpc.MaxRecvMsgSize(maxRequest+bytes))...)
			service.register(server)
			s.patterns["POST "+method] = status.Library(server)
		}
	}
	bounds := map[string]int{}
	for route, method := range methods {
		verb, template, _ := strings.Cut(route, " ")
		_, streams := of[path.Dir(method)].Serve[method]
		s.routes = append(s.routes, jsonRoute{verb, strings.Split(template, "/"), streams})
		pattern := patternOf(route)
		// JSON may escape each byte
		bounds[pattern] = max(bounds[pattern], cmp.Or(of[path.Dir(method)].Body, maxRequest)+2*large[method])
	}
	for pattern, bytes := range bounds {
		s.patterns[pattern] = http.MaxBytesHandler(asGET(mux), int64(bytes))
	}
	reflection.Register(s.grpc)
	return s, nil
}

type headKey struct{}

// asGET serves HEAD as GET; the server omits the body.
func asGET(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			r = r.WithContext(context.WithValue(r.Context(), headKey{}, true))
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// withoutHEAD rejects HEAD for a stream, which would start it.
func withoutHEAD(serve runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		if r.Context().Value(headKey{}) != nil {
			w.Header().Set("Allow", http.MethodGet)
			problem.Write(w, r, problem.MethodNotAllowed())
			return
		}
		serve(w, r, params)
	}
}

// patternOf returns the http.ServeMux pattern of a JSON route. Segments with variables match anything, because
// ServeMux cannot distinguish custom methods, which follow a colon.
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
	mux.Allowed(s.methodsOf)
	for p, handler := range s.patterns {
		mux.HandleRPC(p, handler)
	}
	for service, info := range s.grpc.GetServiceInfo() {
		mux.HandleRPC("POST /"+service+"/", status.Library(s.grpc))
		for _, method := range info.Methods {
			mux.HandleMethods("/" + service + "/" + method.Name)
		}
	}
}

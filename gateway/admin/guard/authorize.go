package guard

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
)

type refusalKey struct{}

func newContext(ctx context.Context, identity *operator.Identity, refusal *call.Refusal) context.Context {
	if identity != nil && refusal == nil {
		return operator.NewContext(ctx, identity)
	}
	return context.WithValue(ctx, refusalKey{}, refusal)
}

// Authorize returns the context of a request with its operator, restricted to the tenants for which it has the role,
// or the refusal of an operator without the role. route is the path of a gRPC method, or a route.
func Authorize(ctx context.Context, route string) (context.Context, *call.Refusal) {
	if refusal, _ := ctx.Value(refusalKey{}).(*call.Refusal); refusal != nil {
		return ctx, refusal
	}
	access, ok := AccessOf(route)
	if !ok { // checked at startup
		return ctx, &call.Refusal{Kind: call.PermissionDenied, Reason: "ROLE_MISSING", Message: "no role permits this"}
	}
	identity, refusal := access.check(operator.FromContext(ctx))
	if identity == nil || refusal != nil {
		return ctx, refusal
	}
	return operator.NewContext(ctx, identity), nil
}

// Unrouted returns the refusal of a request without a route, if the operator lacks the role viewer. Such an operator
// cannot find out which routes exist.
func Unrouted(ctx context.Context) *call.Refusal {
	if refusal, _ := ctx.Value(refusalKey{}).(*call.Refusal); refusal != nil {
		return refusal
	}
	_, refusal := view.check(operator.FromContext(ctx))
	return refusal
}

// Permits reports whether the operator of a request may use a route. Handlers of open routes use it to show more to
// operators.
func Permits(ctx context.Context, route string) bool {
	_, refusal := Authorize(ctx, route)
	return refusal == nil
}

// ServerOptions returns interceptors that authorize the calls of a server.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
			next grpc.UnaryHandler) (any, error) {
			ctx, refusal := Authorize(ctx, info.FullMethod)
			if refusal != nil {
				return nil, status.Err(refusal)
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
			next grpc.StreamHandler) error {
			ctx, refusal := Authorize(stream.Context(), info.FullMethod)
			if refusal != nil {
				return status.Err(refusal)
			}
			return next(srv, authorized{stream, ctx})
		}),
	}
}

// authorized is a stream with the context of its operator.
type authorized struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (a authorized) Context() context.Context { return a.ctx }

// JSON authorizes JSON routes after the mux has selected one. methods is the result of JSONRoutes.
func JSON(methods map[string]string, refuse func(http.ResponseWriter, *http.Request,
	*call.Refusal)) runtime.Middleware {
	return func(next runtime.HandlerFunc) runtime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
			pattern, _ := runtime.HTTPPattern(r.Context())
			ctx, refusal := Authorize(r.Context(), methods[r.Method+" "+pattern.String()])
			if refusal != nil {
				refuse(w, r, refusal)
				return
			}
			next(w, r.WithContext(ctx), params)
		}
	}
}

// variable matches a single-segment variable of a path template, which Pattern.String prints in full.
var variable = regexp.MustCompile(`\{([A-Za-z0-9_.]+)\}`)

// jsonPattern converts a path template to the form of runtime.Pattern.
func jsonPattern(template string) string { return variable.ReplaceAllString(template, "{$1=*}") }

// JSONRoutes maps each HTTP method and pattern, in the form of runtime.Pattern, to the path of its gRPC method. It
// returns an error for a service without a descriptor, since the roles of its routes are unknown.
func JSONRoutes(services []string) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range services {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		service, ok := d.(protoreflect.ServiceDescriptor)
		if err == nil && !ok {
			err = fmt.Errorf("a %T", d)
		}
		if err != nil {
			return nil, fmt.Errorf("the service %s has no descriptor: %w", name, err)
		}
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
			for _, one := range append(rule.GetAdditionalBindings(), rule) {
				if verb, path := route(one); path != "" {
					all[verb+" "+jsonPattern(path)] = "/" + name + "/" + string(m.Name())
				}
			}
		}
	}
	return all, nil
}

// route returns the HTTP method and the path template of a rule. The name of the rule's field is the method.
func route(rule *annotations.HttpRule) (verb, path string) {
	m := rule.ProtoReflect()
	pattern := m.WhichOneof(m.Descriptor().Oneofs().ByName("pattern"))
	if pattern == nil || pattern.Kind() != protoreflect.StringKind { // a custom method
		return "", ""
	}
	return strings.ToUpper(string(pattern.Name())), m.Get(pattern).String()
}

package connect

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// target is the method that a request calls.
type target struct {
	path      string                        // in the form of gRPC
	authority string                        // may name the capability
	json      bool                          // the messages are JSON
	schema    protoreflect.MethodDescriptor // nil means unknown
	body      *heldBody                     // body of the request
	// connect-go has read the request's header, and the message of a unary request
	begun bool
}

type targetKey struct{}

// targetFrom returns the target of the request of ctx.
func targetFrom(ctx context.Context) *target {
	t, _ := ctx.Value(targetKey{}).(*target)
	return t
}

func targetOf(r *http.Request) *target {
	t := &target{path: r.URL.EscapedPath(), authority: r.Host}
	typ := mediaType(r.Header)
	t.json = strings.HasSuffix(typ, "/json") || strings.HasSuffix(typ, "+json")
	service, method, _ := strings.Cut(strings.TrimPrefix(t.path, "/"), "/")
	if d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service)); err == nil {
		if s, ok := d.(protoreflect.ServiceDescriptor); ok {
			t.schema = s.Methods().ByName(protoreflect.Name(method))
		}
	}
	return t
}

// looksLikeMethod reports whether a path is that of a gRPC method, with a service in a package.
func looksLikeMethod(path string) bool {
	service, method, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return ok && strings.Contains(service, ".") && method != "" && !strings.Contains(method, "/")
}

// options returns the options of the in-process call.
func (t *target) options(more ...grpc.CallOption) []grpc.CallOption {
	return append(more, grpc.ForceCodecV2(wire{}), grpc.CallAuthority(t.authority))
}

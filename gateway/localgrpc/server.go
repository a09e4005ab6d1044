package localgrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	gatewaystatus "github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// Server serves registered services on local streams. All services must be registered before the first call; then it
// is safe for concurrent use. The zero value has no services.
type Server struct {
	// Name is reported with a panic of a handler, which ends its call with INTERNAL.
	Name string
	// Unknown serves calls of unregistered methods. If nil, they are UNIMPLEMENTED.
	Unknown grpc.StreamHandler
	// Unary wraps unary calls, and Stream all others; both are optional.
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor
	// MaxMessage is the maximum size of a decompressed message, in bytes; default 16 MiB. The relay limits all others.
	MaxMessage int
	// Codec is the codec of messages; default protobuf.
	Codec encoding.CodecV2
	// Own is true if all statuses are the gateway's. A status without details is then a library's, and is replaced.
	Own bool
	// AsBytes passes messages as *[]byte instead of decoding them.
	AsBytes bool

	services map[string]*service
}

// service is a registered service.
type service struct {
	impl    any
	methods map[string]*grpc.MethodDesc
	streams map[string]*grpc.StreamDesc
	info    grpc.ServiceInfo
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

func (s *Server) codec() codec {
	if s.Codec != nil {
		return codecV2{s.Codec}
	}
	return protobuf()
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if _, twice := s.services[desc.ServiceName]; twice {
		// as in grpc-go: a programming error
		panic(fmt.Sprintf("localgrpc: %s is registered twice", desc.ServiceName))
	}
	known := &service{impl: impl, methods: map[string]*grpc.MethodDesc{}, streams: map[string]*grpc.StreamDesc{},
		info: grpc.ServiceInfo{Metadata: desc.Metadata}}
	for i := range desc.Methods {
		m := &desc.Methods[i]
		known.methods[m.MethodName] = m
		known.info.Methods = append(known.info.Methods, grpc.MethodInfo{Name: m.MethodName})
	}
	for i := range desc.Streams {
		m := &desc.Streams[i]
		known.streams[m.StreamName] = m
		known.info.Methods = append(known.info.Methods, grpc.MethodInfo{Name: m.StreamName,
			IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams})
	}
	if s.services == nil {
		s.services = map[string]*service{}
	}
	s.services[desc.ServiceName] = known
}

// GetServiceInfo implements reflection.ServiceInfoProvider.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo {
	info := make(map[string]grpc.ServiceInfo, len(s.services))
	for _, name := range slices.Sorted(maps.Keys(s.services)) {
		info[name] = s.services[name].info
	}
	return info
}

// Serve serves one call, as an argument of relay.Stream.Serve.
func (s *Server) Serve(stream *relay.ServerStream) relay.Status {
	return s.answer(newServerStream(stream, s))
}

// With returns Serve for calls whose context add extends.
func (s *Server) With(add func(context.Context) context.Context) func(*relay.ServerStream) relay.Status {
	return func(stream *relay.ServerStream) relay.Status {
		ss := newServerStream(stream, s)
		ss.ctx = add(ss.ctx)
		return s.answer(ss)
	}
}

func (s *Server) answer(ss *serverStream) relay.Status {
	err := recovery.Do(s.Name, func() error { return s.serve(ss) })
	ss.finish()
	if err != nil && !ss.sent && len(ss.header) > 0 {
		_ = ss.SendHeader(nil) // if that fails, the status is not sent either
	}
	if errors.Is(err, recovery.ErrPanic) {
		progress := call.Sent
		if s.Own {
			progress = call.Answered
		}
		return gatewaystatus.Relayed(gatewaystatus.Panicked, progress)
	}
	st := StatusOf(err)
	if s.Own && st.Code != uint32(codes.OK) && len(st.Details) == 0 {
		return gatewaystatus.OfLibrary(codes.Code(st.Code), st.Message)
	}
	return st
}

func (s *Server) serve(stream *serverStream) error {
	name, method, _ := strings.Cut(strings.TrimPrefix(stream.path, "/"), "/")
	known := s.services[name]
	if known != nil {
		if m := known.methods[method]; m != nil {
			return s.serveUnary(stream, known.impl, m)
		}
		if m := known.streams[method]; m != nil {
			return s.serveStream(stream, known.impl, m.Handler, &grpc.StreamServerInfo{FullMethod: stream.path,
				IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams})
		}
	}
	if s.Unknown != nil {
		return s.serveStream(stream, nil, s.Unknown, &grpc.StreamServerInfo{FullMethod: stream.path,
			IsClientStream: true, IsServerStream: true})
	}
	return status.Error(codes.Unimplemented, "the gateway has no such method")
}

func (s *Server) serveUnary(stream *serverStream, impl any, m *grpc.MethodDesc) error {
	ctx := grpc.NewContextWithServerTransportStream(stream.ctx, transportStream{stream})
	reply, err := m.Handler(impl, ctx, stream.RecvMsg, s.Unary)
	if err != nil {
		return err
	}
	return stream.SendMsg(reply)
}

func (s *Server) serveStream(stream *serverStream, impl any, serve grpc.StreamHandler,
	info *grpc.StreamServerInfo) error {
	stream.ctx = grpc.NewContextWithServerTransportStream(stream.ctx, transportStream{stream})
	if s.Stream != nil {
		return s.Stream(impl, stream, info, serve)
	}
	return serve(impl, stream)
}

package grpctest

import (
	"context"
	_ "embed"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Descriptors are those of the service, with comments, as a descriptor file has them.
//
//go:embed demo.binpb
var Descriptors []byte

// Reflection is the version of server reflection that a Server supports.
type Reflection uint8

// The versions.
const (
	V1 Reflection = iota
	V1Alpha
	NoReflection
)

// Options configure a Server. The zero value works.
type Options struct {
	Reflection Reflection
	// Reflect replaces the server reflection of v1. If it is nil, the real one is used.
	Reflect func(reflectionpb.ServerReflection_ServerReflectionInfoServer) error
	Health  *health.Server // grpc.health.v1; nil if there is none
	Addr    string         // host:port; default a free port
	Listen  net.Listener   // instead of Addr
	Server  []grpc.ServerOption
	// Descriptors describes the service. The default is the package's Descriptors.
	Descriptors []byte
	Register    func(grpc.ServiceRegistrar) // further services; nil: none
}

// Server serves demo.v1.Demo.
type Server struct {
	Addr  string
	Began chan struct{} // gets a value for each call of Wait and for each endless stream
	Ended chan error    // gets the reason for the end of each of these
	Files *protoregistry.Files

	server *grpc.Server
	mu     sync.Mutex
	calls  int
	seen   metadata.MD
}

// Start runs a Server until the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{Began: make(chan struct{}, 100), Ended: make(chan error, 100)}
	if o.Descriptors == nil {
		o.Descriptors = Descriptors
	}
	s.Files = files(t, o.Descriptors)
	s.server = grpc.NewServer(append([]grpc.ServerOption{grpc.UnknownServiceHandler(s.serve)}, o.Server...)...)
	described := reflection.ServerOptions{Services: s, DescriptorResolver: s.Files}
	switch {
	case o.Reflect != nil:
		reflectionpb.RegisterServerReflectionServer(s.server, scripted{answer: o.Reflect})
	case o.Reflection == V1:
		reflectionpb.RegisterServerReflectionServer(s.server, reflection.NewServerV1(described))
	case o.Reflection == V1Alpha:
		reflectionalphapb.RegisterServerReflectionServer(s.server, reflection.NewServer(described))
	}
	if o.Health != nil {
		healthpb.RegisterHealthServer(s.server, o.Health)
	}
	if o.Register != nil {
		o.Register(s.server)
	}
	if o.Addr == "" {
		o.Addr = check.ClosedPort(t)
	}
	ln := o.Listen
	if ln == nil {
		var err error
		ln, err = net.Listen("tcp", o.Addr)
		check.Must(t, err)
	}
	s.Addr = ln.Addr().String()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.server.Serve(ln)
	}()
	check.Cleanup(t, func() {
		s.Stop()
		<-ended
	})
	return s
}

// Stop ends the server and its connections.
func (s *Server) Stop() { s.server.Stop() }

// Calls returns the number of calls of methods of the service.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Metadata returns the metadata of the last call.
func (s *Server) Metadata() metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// GetServiceInfo implements reflection.ServiceInfoProvider.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo {
	info := map[string]grpc.ServiceInfo{}
	s.Files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			info[string(file.Services().Get(i).FullName())] = grpc.ServiceInfo{}
		}
		return true
	})
	return info
}

type scripted struct {
	reflectionpb.UnimplementedServerReflectionServer
	answer func(reflectionpb.ServerReflection_ServerReflectionInfoServer) error
}

// ServerReflectionInfo implements reflectionpb.ServerReflectionServer.
func (s scripted) ServerReflectionInfo(stream reflectionpb.ServerReflection_ServerReflectionInfoServer) error {
	return s.answer(stream)
}

// files links descriptors.
func files(t testing.TB, descriptors []byte) *protoregistry.Files {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	check.Must(t, proto.Unmarshal(descriptors, set))
	files, err := protodesc.NewFiles(set)
	check.Must(t, err)
	return files
}

// serve answers a call of any method.
func (s *Server) serve(_ any, stream grpc.ServerStream) error {
	path, _ := grpc.MethodFromServerStream(stream)
	service, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	found, err := s.Files.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	m, is := found.(protoreflect.MethodDescriptor)
	if err != nil || !is {
		return status.Error(codes.Unimplemented, "no such method")
	}
	in := dynamicpb.NewMessage(m.Input())
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(stream.Context())
	s.mu.Lock()
	s.calls++
	s.seen = md
	s.mu.Unlock()
	out := dynamicpb.NewMessage(m.Output())
	switch name {
	case "Echo":
		return stream.SendMsg(in)
	case "Count":
		return s.count(stream, in, m.Output())
	case "Fail":
		return failure(field(in, "code").Int(), field(in, "message").String())
	case "Wait":
		return s.wait(stream.Context())
	case "Raw":
		out.SetUnknown(field(in, "message").Bytes())
	}
	return stream.SendMsg(out)
}

// field returns a field of a message.
func field(m *dynamicpb.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

// count sends numbers, then fails if the request says so.
func (s *Server) count(stream grpc.ServerStream, in *dynamicpb.Message, of protoreflect.MessageDescriptor) error {
	endless := field(in, "endless").Bool()
	if endless {
		s.Began <- struct{}{}
	}
	filler := strings.Repeat("x", int(field(in, "size").Int()))
	for i := int64(1); endless || i <= field(in, "to").Int(); i++ {
		out := dynamicpb.NewMessage(of)
		out.Set(of.Fields().ByName("number"), protoreflect.ValueOfInt32(int32(i)))
		out.Set(of.Fields().ByName("filler"), protoreflect.ValueOfString(filler))
		if err := stream.SendMsg(out); err != nil {
			if endless {
				s.Ended <- err
			}
			return err
		}
	}
	if field(in, "fail").Bool() {
		return status.Error(codes.DataLoss, "the numbers are lost")
	}
	return nil
}

// failure returns a status with a detail.
func failure(code int64, message string) error {
	st, err := status.New(codes.Code(code), message).WithDetails(&errdetails.ErrorInfo{Reason: "DEMO"})
	if err != nil {
		return err
	}
	return st.Err()
}

func (s *Server) wait(ctx context.Context) error {
	s.Began <- struct{}{}
	<-ctx.Done()
	s.Ended <- ctx.Err()
	return ctx.Err()
}

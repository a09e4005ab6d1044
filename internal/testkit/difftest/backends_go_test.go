package difftest

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // enables gzip in servers
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// teller reports the calls that a Go backend runs.
type teller struct {
	journal  *journal
	name     string
	reserved bool
}

// invocation has the common methods of requests in the doc and live dialects.
type invocation interface {
	GetToolName() string
	GetArgsJson() []byte
	GetConfigJson() []byte
	GetSessionId() string
	GetCapabilityId() string
	GetThreadId() string
}

// arguments is the struct of a Go capability's arguments.
type arguments struct {
	Command     *string `json:"command"`
	Attachments []struct {
		ID string `json:"capability_artifact_id"`
	} `json:"attachments"`
}

func (l *teller) ran(id, method string, m invocation) {
	r := run{
		Backend: l.name, Case: id, Reserved: l.reserved, Method: method, Tool: m.GetToolName(),
		Session:    m.GetSessionId(),
		Capability: m.GetCapabilityId(), Thread: m.GetThreadId(), Args: m.GetArgsJson(), Config: m.GetConfigJson(),
	}
	var args arguments
	if json.Unmarshal(r.Args, &args) == nil {
		r.Command = args.Command
		for _, a := range args.Attachments {
			r.Artifacts = append(r.Artifacts, a.ID)
		}
	}
	var config map[string]json.RawMessage
	if json.Unmarshal(r.Config, &config) == nil {
		for name := range config {
			r.Names = append(r.Names, name)
		}
	}
	l.journal.add(r)
}

// other reports a call of a method other than those of tools.
func (l *teller) other(id, method string, artifacts ...string) {
	l.journal.add(run{Backend: l.name, Case: id, Reserved: l.reserved, Method: method, Artifacts: artifacts})
}

func caseOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get("x-request-id"), ",")
}

var ok = []byte(`{"ran":true}`)

// liveServer is a capability on grpc-go.
type liveServer struct {
	livepb.UnimplementedCapabilityServer
	*teller
}

func (s liveServer) Invoke(ctx context.Context, m *livepb.InvokeRequest) (*livepb.InvokeResponse, error) {
	s.ran(caseOf(ctx), invokePaths[live], m)
	return &livepb.InvokeResponse{ResultJson: ok}, nil
}

func (s liveServer) StreamInvoke(m *livepb.InvokeRequest,
	stream grpc.ServerStreamingServer[livepb.InvokeChunk]) error {
	s.ran(caseOf(stream.Context()), streamPaths[live], m)
	return stream.Send(&livepb.InvokeChunk{Data: ok, Done: true})
}

func (s liveServer) UploadInputArtifact(stream grpc.ClientStreamingServer[livepb.UploadInputArtifactChunk,
	livepb.UploadInputArtifactResponse]) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	s.other(caseOf(stream.Context()), uploadPaths[live])
	return stream.SendAndClose(&livepb.UploadInputArtifactResponse{CapabilityArtifactId: m.GetFilename()})
}

func (s liveServer) DownloadOutputArtifact(m *livepb.DownloadOutputArtifactRequest,
	stream grpc.ServerStreamingServer[livepb.ArtifactChunk]) error {
	s.other(caseOf(stream.Context()), downloadPaths[live], m.GetCapabilityArtifactId())
	return stream.Send(&livepb.ArtifactChunk{Data: ok, Filename: "f", Done: true})
}

func (liveServer) Healthcheck(context.Context, *livepb.HealthRequest) (*livepb.HealthResponse, error) {
	return &livepb.HealthResponse{Ready: true}, nil
}

// docServer is the same capability in the doc dialect.
type docServer struct {
	docpb.UnimplementedCapabilityServer
	*teller
}

func (s docServer) Invoke(ctx context.Context, m *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	s.ran(caseOf(ctx), invokePaths[doc], m)
	return &docpb.InvokeResponse{ResultJson: ok}, nil
}

func (s docServer) StreamInvoke(m *docpb.InvokeRequest, stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	s.ran(caseOf(stream.Context()), streamPaths[doc], m)
	return stream.Send(&docpb.InvokeChunk{Data: ok, Done: true})
}

func (s docServer) UploadInputArtifact(stream grpc.ClientStreamingServer[docpb.UploadInputArtifactChunk,
	docpb.UploadInputArtifactResponse]) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	s.other(caseOf(stream.Context()), uploadPaths[doc])
	return stream.SendAndClose(&docpb.UploadInputArtifactResponse{CapabilityArtifactId: m.GetFilename()})
}

func (s docServer) DownloadOutputArtifact(m *docpb.DownloadOutputArtifactRequest,
	stream grpc.ServerStreamingServer[docpb.ArtifactChunk]) error {
	s.other(caseOf(stream.Context()), downloadPaths[doc], m.GetArtifactId())
	return stream.Send(&docpb.ArtifactChunk{Data: ok, Filename: "f", Done: true})
}

func (docServer) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

// legacyServer is the same capability in the legacy dialect.
type legacyServer struct {
	legacypb.UnimplementedCapabilityServiceServer
	*teller
}

// translated returns a legacy request in the form of the other dialects.
func translated(m *legacypb.InvokeRequest) invocation {
	c := m.GetContext()
	return &docpb.InvokeRequest{
		ToolName: m.GetToolName(), ArgsJson: []byte(m.GetParameters()), ConfigJson: []byte(c["config_json"]),
		SessionId: c["session_id"], CapabilityId: c["capability_id"], ThreadId: c["thread_id"],
	}
}

func (s legacyServer) Invoke(ctx context.Context, m *legacypb.InvokeRequest) (*legacypb.InvokeResponse, error) {
	s.ran(caseOf(ctx), invokePaths[legacy], translated(m))
	return &legacypb.InvokeResponse{Result: string(ok), Success: true}, nil
}

func (legacyServer) HealthCheck(context.Context, *legacypb.HealthCheckRequest) (*legacypb.HealthCheckResponse, error) {
	return &legacypb.HealthCheckResponse{Healthy: true}, nil
}

func grpcServer(l *teller, options ...grpc.ServerOption) *grpc.Server {
	s := grpc.NewServer(options...)
	livepb.RegisterCapabilityServer(s, liveServer{teller: l})
	docpb.RegisterCapabilityServer(s, docServer{teller: l})
	legacypb.RegisterCapabilityServiceServer(s, legacyServer{teller: l})
	return s
}

// startGo starts grpc-go, grpc-go behind net/http, and connect-go, in this process.
func startGo(t testing.TB, j *journal) []*backend {
	t.Helper()
	both := func(name string, serve func(net.Listener, *teller) (stop func())) *backend {
		b := &backend{name: name}
		for i := range b.ports {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			check.Must(t, err)
			b.ports[i] = ln.Addr().(*net.TCPAddr).Port
			check.Cleanup(t, serve(ln, &teller{journal: j, name: name, reserved: i == 1}))
		}
		return b
	}
	web := func(ln net.Listener, handler http.Handler) func() {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		s := &http.Server{Protocols: protocols, Handler: handler}
		go func() { _ = s.Serve(ln) }() // ends with Close
		return func() { _ = s.Close() }
	}
	return []*backend{
		both("grpcgo", func(ln net.Listener, l *teller) func() {
			s := grpcServer(l)
			go func() { _ = s.Serve(ln) }() // ends with Stop
			return s.Stop
		}),
		both("gohttp", func(ln net.Listener, l *teller) func() { return web(ln, grpcServer(l)) }),
		both("connectgo", func(ln net.Listener, l *teller) func() { return web(ln, connectHandler(l)) }),
	}
}

// connectHandler works like the code of protoc-gen-connect-go: services by prefix, methods by the decoded path.
func connectHandler(l *teller) http.Handler {
	mux := http.NewServeMux()
	service := func(methods map[string]http.Handler) {
		for path := range methods {
			mux.HandleFunc(path[:strings.LastIndex(path, "/")+1], func(w http.ResponseWriter, r *http.Request) {
				if h, ok := methods[r.URL.Path]; ok {
					h.ServeHTTP(w, r)
					return
				}
				http.NotFound(w, r)
			})
			return
		}
	}
	service(map[string]http.Handler{
		invokePaths[live]: connect.NewUnaryHandler(invokePaths[live],
			func(_ context.Context, r *connect.Request[livepb.InvokeRequest]) (*connect.Response[livepb.InvokeResponse],
				error) {
				l.ran(r.Header().Get("x-request-id"), invokePaths[live], r.Msg)
				return connect.NewResponse(&livepb.InvokeResponse{ResultJson: ok}), nil
			}),
		streamPaths[live]: connect.NewServerStreamHandler(streamPaths[live],
			func(_ context.Context, r *connect.Request[livepb.InvokeRequest],
				s *connect.ServerStream[livepb.InvokeChunk]) error {
				l.ran(r.Header().Get("x-request-id"), streamPaths[live], r.Msg)
				return s.Send(&livepb.InvokeChunk{Data: ok, Done: true})
			}),
		uploadPaths[live]: connect.NewClientStreamHandler(uploadPaths[live],
			func(
				_ context.Context, s *connect.ClientStream[livepb.UploadInputArtifactChunk],
			) (*connect.Response[livepb.UploadInputArtifactResponse], error) {
				s.Receive()
				l.other(s.RequestHeader().Get("x-request-id"), uploadPaths[live])
				return connect.NewResponse(&livepb.UploadInputArtifactResponse{
					CapabilityArtifactId: s.Msg().GetFilename()}), nil
			}),
		downloadPaths[live]: connect.NewServerStreamHandler(downloadPaths[live],
			func(_ context.Context, r *connect.Request[livepb.DownloadOutputArtifactRequest],
				s *connect.ServerStream[livepb.ArtifactChunk]) error {
				l.other(r.Header().Get("x-request-id"), downloadPaths[live], r.Msg.GetCapabilityArtifactId())
				return s.Send(&livepb.ArtifactChunk{Data: ok, Filename: "f", Done: true})
			}),
		"/selu.capability.v1.Capability/Healthcheck": connect.NewUnaryHandler(
			"/selu.capability.v1.Capability/Healthcheck",
			func(context.Context, *connect.Request[livepb.HealthRequest]) (*connect.Response[livepb.HealthResponse],
				error) {
				return connect.NewResponse(&livepb.HealthResponse{Ready: true}), nil
			}),
	})
	service(map[string]http.Handler{
		invokePaths[doc]: connect.NewUnaryHandler(invokePaths[doc],
			func(_ context.Context, r *connect.Request[docpb.InvokeRequest]) (*connect.Response[docpb.InvokeResponse],
				error) {
				l.ran(r.Header().Get("x-request-id"), invokePaths[doc], r.Msg)
				return connect.NewResponse(&docpb.InvokeResponse{ResultJson: ok}), nil
			}),
		streamPaths[doc]: connect.NewServerStreamHandler(streamPaths[doc],
			func(_ context.Context, r *connect.Request[docpb.InvokeRequest],
				s *connect.ServerStream[docpb.InvokeChunk]) error {
				l.ran(r.Header().Get("x-request-id"), streamPaths[doc], r.Msg)
				return s.Send(&docpb.InvokeChunk{Data: ok, Done: true})
			}),
		uploadPaths[doc]: connect.NewClientStreamHandler(uploadPaths[doc],
			func(
				_ context.Context, s *connect.ClientStream[docpb.UploadInputArtifactChunk],
			) (*connect.Response[docpb.UploadInputArtifactResponse], error) {
				s.Receive()
				l.other(s.RequestHeader().Get("x-request-id"), uploadPaths[doc])
				return connect.NewResponse(&docpb.UploadInputArtifactResponse{
					CapabilityArtifactId: s.Msg().GetFilename()}), nil
			}),
		downloadPaths[doc]: connect.NewServerStreamHandler(downloadPaths[doc],
			func(_ context.Context, r *connect.Request[docpb.DownloadOutputArtifactRequest],
				s *connect.ServerStream[docpb.ArtifactChunk]) error {
				l.other(r.Header().Get("x-request-id"), downloadPaths[doc], r.Msg.GetArtifactId())
				return s.Send(&docpb.ArtifactChunk{Data: ok, Filename: "f", Done: true})
			}),
		"/selu.capability.Capability/Healthcheck": connect.NewUnaryHandler("/selu.capability.Capability/Healthcheck",
			func(context.Context, *connect.Request[docpb.HealthRequest]) (*connect.Response[docpb.HealthResponse],
				error) {
				return connect.NewResponse(&docpb.HealthResponse{Ready: true}), nil
			}),
	})
	const legacyHealth = "/selu.capability.v1.CapabilityService/HealthCheck"
	service(map[string]http.Handler{
		invokePaths[legacy]: connect.NewUnaryHandler(invokePaths[legacy],
			func(_ context.Context, r *connect.Request[legacypb.InvokeRequest]) (
				*connect.Response[legacypb.InvokeResponse], error) {
				l.ran(r.Header().Get("x-request-id"), invokePaths[legacy], translated(r.Msg))
				return connect.NewResponse(&legacypb.InvokeResponse{Result: string(ok), Success: true}), nil
			}),
		legacyHealth: connect.NewUnaryHandler(legacyHealth,
			func(
				context.Context, *connect.Request[legacypb.HealthCheckRequest],
			) (*connect.Response[legacypb.HealthCheckResponse], error) {
				return connect.NewResponse(&legacypb.HealthCheckResponse{Healthy: true}), nil
			}),
	})
	return mux
}

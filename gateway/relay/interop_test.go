package relay_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	v3orcapb "github.com/cncf/xds/go/xds/data/orca/v3"
	v3orcaservicepb "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// TestMain gives grpc-go a logger that makes a failed interop case end that case and not the process.
func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(interopLog{grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr)})
	check.BoundMemory()
	os.Exit(m.Run())
}

// interopLog panics where grpc-go's interop functions report a failure, on the goroutine that called them.
type interopLog struct{ grpclog.LoggerV2 }

type interopFailure string

func (interopLog) Fatal(args ...any)   { panic(interopFailure(fmt.Sprint(args...))) }
func (interopLog) Fatalln(args ...any) { panic(interopFailure(fmt.Sprintln(args...))) }
func (interopLog) Fatalf(format string, args ...any) {
	panic(interopFailure(fmt.Sprintf(format, args...)))
}

// TestInterop runs grpc-go's interop cases against its interop server, through a
// relay that forwards by service.
func TestInterop(t *testing.T) {
	t.Parallel()
	addr := serveInterop(t)
	connect := func(t *testing.T) *grpc.ClientConn {
		return dialGRPC(t, addr, grpc.WithDefaultServiceConfig(
			`{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`))
	}
	client := func(do func(context.Context, testgrpc.TestServiceClient)) func(context.Context, *testing.T) {
		return func(ctx context.Context, t *testing.T) { do(ctx, testgrpc.NewTestServiceClient(connect(t))) }
	}
	call := func(do func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context,
		*testing.T) {
		return client(func(ctx context.Context, c testgrpc.TestServiceClient) { do(ctx, c) })
	}
	keepingOpen := func(ctx context.Context, t *testing.T) {
		interop.DoCancelAfterBegin(ctx, testgrpc.NewTestServiceClient(dialGRPC(t, addr, grpc.WithStreamInterceptor(
			withoutEndAfterCancel))))
	}
	soak := func(each bool) func(context.Context, *testing.T) {
		return func(ctx context.Context, t *testing.T) { doSoak(ctx, t, addr, each) }
	}
	cases := map[string]func(context.Context, *testing.T){
		"empty_unary":                 call(interop.DoEmptyUnaryCall),
		"large_unary":                 call(interop.DoLargeUnaryCall),
		"client_streaming":            call(interop.DoClientStreaming),
		"server_streaming":            call(interop.DoServerStreaming),
		"ping_pong":                   call(interop.DoPingPong),
		"empty_stream":                call(interop.DoEmptyStream),
		"timeout_on_sleeping_server":  call(interop.DoTimeoutOnSleepingServer),
		"cancel_after_begin":          keepingOpen,
		"cancel_after_first_response": call(interop.DoCancelAfterFirstResponse),
		"status_code_and_message":     call(interop.DoStatusCodeAndMessage),
		"special_status_message":      call(interop.DoSpecialStatusMessage),
		"custom_metadata":             call(interop.DoCustomMetadata),
		"unimplemented_method": func(ctx context.Context, t *testing.T) {
			interop.DoUnimplementedMethod(ctx,
				connect(t))
		},
		"unimplemented_service": func(ctx context.Context, t *testing.T) {
			interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(connect(t)))
		},
		"rpc_soak":     soak(false),
		"channel_soak": soak(true),
		"orca_per_rpc": client(interop.DoORCAPerRPCTest),
		"orca_oob":     client(interop.DoORCAOOBTest),
	}
	for name, do := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
			defer cancel()
			defer func() {
				if p := recover(); p != nil {
					failure, ok := p.(interopFailure)
					if !ok {
						panic(p)
					}
					t.Fatal(string(failure))
				}
			}()
			do(ctx, t)
		})
	}
}

// withoutEndAfterCancel drops the CloseSend of a canceled call. The interop case sends it, and a fast server might
// respond before the call ends.
func withoutEndAfterCancel(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := streamer(ctx, d, cc, method, opts...)
	return cancelledStream{s}, err
}

type cancelledStream struct{ grpc.ClientStream }

func (s cancelledStream) CloseSend() error {
	if s.Context().Err() != nil {
		return nil
	}
	return s.ClientStream.CloseSend()
}

// serveInterop starts grpc-go's interop server and a relay before it, and returns the relay's address.
func serveInterop(t *testing.T) string {
	recorder := orca.NewServerMetricsRecorder()
	srv := grpc.NewServer(orca.CallMetricsServerOption(nil))
	testgrpc.RegisterTestServiceServer(srv,
		interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: recorder}))
	v3orcaservicepb.RegisterOpenRcaServiceServer(srv, &loadReporter{recorder: recorder})
	back := check.Listen(t)
	go func() { _ = srv.Serve(back) }()
	check.Cleanup(t, srv.Stop)

	h := &attackHandler{}
	r := relay.New(relay.Config{}, h, http.NotFoundHandler())
	check.Cleanup(t, r.Close)
	up := r.NewUpstream(relay.UpstreamConfig{Addr: back.Addr().String()})
	services := map[string]*relay.Upstream{
		testgrpc.TestService_ServiceDesc.ServiceName:           up,
		v3orcaservicepb.OpenRcaService_ServiceDesc.ServiceName: up,
	}
	h.headers = func(s *relay.Stream) {
		if d, ok := s.Timeout(); ok { // otherwise client and server end the call, in any order
			s.SetDeadline(d)
		}
		service, _, _ := strings.Cut(strings.TrimPrefix(s.Path(), "/"), "/")
		if to, ok := services[service]; ok {
			s.Forward(to)
		} else {
			s.Refuse(relay.Status{Code: 12, Message: "unknown service " + service})
		}
	}
	front := check.Listen(t)
	go func() { _ = r.Serve(front) }()
	return front.Addr().String()
}

// loadReporter sends load reports out of band like the service of package orca, but more often than every 30 s.
type loadReporter struct {
	v3orcaservicepb.UnimplementedOpenRcaServiceServer
	recorder orca.ServerMetricsRecorder
}

func (r *loadReporter) StreamCoreMetrics(req *v3orcaservicepb.OrcaLoadReportRequest,
	stream v3orcaservicepb.OpenRcaService_StreamCoreMetricsServer) error {
	ticker := time.NewTicker(req.GetReportInterval().AsDuration() / 10)
	defer ticker.Stop()
	for {
		m := r.recorder.ServerMetrics()
		report := &v3orcapb.OrcaLoadReport{CpuUtilization: max(m.CPUUtilization, 0),
			MemUtilization: max(m.MemUtilization, 0), Utilization: m.Utilization}
		if err := stream.Send(report); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-ticker.C:
		}
	}
}

// doSoak makes large unary calls; if each is set, every call has its own connection.
func doSoak(ctx context.Context, t *testing.T, addr string, each bool) {
	shared := dialGRPC(t, addr)
	interop.DoSoakTest(ctx, interop.SoakTestConfig{
		RequestSize:                      271828,
		ResponseSize:                     314159,
		PerIterationMaxAcceptableLatency: check.Patience,
		OverallTimeout:                   check.Patience,
		ServerAddr:                       addr,
		NumWorkers:                       4,
		Iterations:                       40,
		ChannelForTest: func() (*grpc.ClientConn, func()) {
			if !each {
				return shared, func() {}
			}
			cc := dialGRPC(t, addr)
			return cc, func() { _ = cc.Close() }
		},
	})
}

func dialGRPC(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	cc, err := clienttest.NewConn(addr,
		append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)...)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = cc.Close() })
	return cc
}

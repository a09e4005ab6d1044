package localgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// served is a relay.Handler that has a server in the process answer every call.
type served struct{ server *localgrpc.Server }

func (h served) Headers(s *relay.Stream)                  { s.Serve(h.server.Serve) }
func (served) Message(*relay.Stream, relay.Message)       {}
func (served) Unsent(*relay.Stream, error)                {}
func (served) Again(*relay.Stream, relay.Answer) bool     { return false }
func (served) Started(*relay.Stream)                      {}
func (served) Exceeded(*relay.Stream, relay.Failure) bool { return false }
func (served) Done(*relay.Stream, *relay.Result)          {}
func (served) Explain(_ *relay.Stream, f relay.Failure) relay.Status {
	if f == relay.DeadlineExceeded {
		return relay.Status{Code: uint32(codes.DeadlineExceeded)}
	}
	return relay.Status{Code: uint32(codes.Unavailable), Message: "the relay has ended the call"}
}

// within returns a connection to a server in the process, until the test ends.
func within(t testing.TB, server *localgrpc.Server) *localgrpc.Conn {
	t.Helper()
	r := relay.New(relay.Config{}, served{server}, http.NotFoundHandler())
	check.Cleanup(t, r.Close)
	return &localgrpc.Conn{Relay: r}
}

// tested returns a connection to the interoperability tests' service of gRPC.
func tested(t testing.TB) testgrpc.TestServiceClient {
	t.Helper()
	server := &localgrpc.Server{Name: "test"}
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	return testgrpc.NewTestServiceClient(within(t, server))
}

func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	check.Cleanup(t, cancel)
	return ctx
}

func payload(size int) *testgrpc.Payload { return &testgrpc.Payload{Body: make([]byte, size)} }

// TestEveryKind makes calls of each kind, with messages of all sizes around windows and frames.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	client := tested(t)
	for _, size := range []int{0, 1, 16<<10 - 5, 64 << 10, 1 << 20} {
		ctx := patient(t)
		resp, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: int32(size), Payload: payload(size)})
		if err != nil || len(resp.GetPayload().GetBody()) != size {
			t.Errorf("unary, %d bytes: %d, %v", size, len(resp.GetPayload().GetBody()), err)
		}
		up, err := client.StreamingInputCall(ctx)
		check.Must(t, err)
		for range 3 {
			check.Must(t, up.Send(&testgrpc.StreamingInputCallRequest{Payload: payload(size)}))
		}
		if sum, err := up.CloseAndRecv(); err != nil || int(sum.GetAggregatedPayloadSize()) != 3*size {
			t.Errorf("client stream, %d bytes: %v, %v", size, sum, err)
		}
		down, err := client.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{
			ResponseParameters: []*testgrpc.ResponseParameters{{Size: int32(size)}, {Size: int32(size)}}})
		check.Must(t, err)
		for n := 0; ; n++ {
			m, err := down.Recv()
			if errors.Is(err, io.EOF) && n == 2 {
				break
			}
			if err != nil || len(m.GetPayload().GetBody()) != size {
				t.Fatalf("server stream, %d bytes, message %d: %v", size, n, err)
			}
		}
		pingPong(ctx, t, client, size)
	}
}

func pingPong(ctx context.Context, t *testing.T, client testgrpc.TestServiceClient, size int) {
	t.Helper()
	both, err := client.FullDuplexCall(ctx)
	check.Must(t, err)
	for n := range 3 {
		err := both.Send(&testgrpc.StreamingOutputCallRequest{Payload: payload(size),
			ResponseParameters: []*testgrpc.ResponseParameters{{Size: int32(size)}}})
		check.Must(t, err)
		if m, err := both.Recv(); err != nil || len(m.GetPayload().GetBody()) != size {
			t.Fatalf("both ways, %d bytes, message %d: %v", size, n, err)
		}
	}
	_ = both.CloseSend()
	if _, err := both.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("both ways, %d bytes, at the end: %v", size, err)
	}
}

// TestMetadataCrosses: metadata crosses in both directions, bytes too; what gRPC keeps for itself does not.
func TestMetadataCrosses(t *testing.T) {
	t.Parallel()
	client := tested(t)
	ctx := metadata.AppendToOutgoingContext(patient(t), "x-grpc-test-echo-initial", "first",
		"x-grpc-test-echo-trailing-bin", "\x00\xff", "grpc-status", "5", "content-type", "text/plain")
	var header, trailer metadata.MD
	_, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	check.Must(t, err)
	if got := fmt.Sprintf("%q %q", header["x-grpc-test-echo-initial"],
		trailer["x-grpc-test-echo-trailing-bin"]); got != `["first"] ["\x00\xff"]` {
		t.Errorf("%s, of %v and %v", got, header, trailer)
	}
}

// TestStatus: the error of a handler is the error of its caller, before the first message and after it.
func TestStatus(t *testing.T) {
	t.Parallel()
	client := tested(t)
	want := &testgrpc.EchoStatus{Code: int32(codes.Aborted), Message: "not now: ☺"}
	_, err := client.UnaryCall(patient(t), &testgrpc.SimpleRequest{ResponseStatus: want})
	if st := status.Convert(err); st.Code() != codes.Aborted || st.Message() != want.GetMessage() {
		t.Errorf("unary: %v; st %+v", err, st)
	}
	both, err := client.FullDuplexCall(patient(t))
	check.Must(t, err)
	_ = both.Send(&testgrpc.StreamingOutputCallRequest{ResponseStatus: want})
	if _, err = both.Recv(); status.Code(err) != codes.Aborted {
		t.Errorf("both ways: %v", err)
	}
	if _, err := client.UnimplementedCall(patient(t), &testgrpc.Empty{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("of no method: %v", err)
	}
}

// TestEnds: a call ends with its context, and its handler's context with it.
func TestEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	conn := within(t, &localgrpc.Server{Unknown: func(_ any, s grpc.ServerStream) error {
		<-s.Context().Done()
		ended <- s.Context().Err()
		return s.Context().Err()
	}})
	for name, test := range map[string]struct {
		timeout time.Duration
		code    codes.Code
	}{
		"canceled": {time.Hour, codes.Canceled},
		"deadline": {20 * time.Millisecond, codes.DeadlineExceeded},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/t.T/Wait")
		check.Must(t, err)
		if test.code == codes.Canceled {
			cancel()
		}
		if err := s.RecvMsg(new(testgrpc.Empty)); status.Code(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
		if err := check.Received(t, ended, "the end of the call at the server"); err == nil {
			t.Errorf("%s: the handler's context goes on", name)
		}
		cancel()
	}
}

// TestPanicOfAHandler ends its call with INTERNAL, and no other.
func TestPanicOfAHandler(t *testing.T) {
	t.Parallel()
	conn := within(t, &localgrpc.Server{Name: "localgrpc test",
		Unknown: func(any, grpc.ServerStream) error { panic("boom") }})
	for range 2 {
		err := conn.Invoke(patient(t), "/t.T/Panic", &testgrpc.Empty{}, new(testgrpc.Empty))
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "boom") {
			t.Error(err)
		}
	}
}

// TestOptions: a call option that local streams do not have is an error.
func TestOptions(t *testing.T) {
	t.Parallel()
	client := tested(t)
	if _, err := client.EmptyCall(patient(t), &testgrpc.Empty{},
		grpc.UseCompressor("gzip")); status.Code(err) != codes.Internal {
		t.Errorf("a compressor: %v", err)
	}
	_, err := client.UnaryCall(patient(t), &testgrpc.SimpleRequest{ResponseSize: 2000}, grpc.MaxCallRecvMsgSize(1000))
	if err == nil {
		t.Error("an answer is longer than its caller takes")
	}
}

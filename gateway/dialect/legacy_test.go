package dialect_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/localgrpc"
	gatewaystatus "github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// oldTool is a backend of the legacy dialect that keeps its last request.
type oldTool struct {
	legacypb.UnimplementedCapabilityServiceServer
	answer *legacypb.InvokeResponse
	got    *legacypb.InvokeRequest
}

func (b *oldTool) Invoke(_ context.Context, req *legacypb.InvokeRequest) (*legacypb.InvokeResponse, error) {
	b.got = req
	return b.answer, nil
}

// TestLegacyBackends: a backend of the legacy dialect gets the fields of a call in its context, and its failure has a
// text.
func TestLegacyBackends(t *testing.T) {
	t.Parallel()
	all := map[string]string{"session_id": "s", "thread_id": "t", "capability_id": "c", "config_json": `{"k":1}`}
	for name, test := range map[string]struct {
		req        *docpb.InvokeRequest
		answer     *legacypb.InvokeResponse
		parameters string
		context    map[string]string
		result     string
		failure    string
		refused    bool
	}{
		"all fields": {&docpb.InvokeRequest{ArgsJson: []byte("[1]"), SessionId: "s", ThreadId: "t", CapabilityId: "c",
			ConfigJson: []byte(`{"k":1}`)}, &legacypb.InvokeResponse{Success: true, Result: "2"}, "[1]", all, "2", "",
			false},
		"no fields": {&docpb.InvokeRequest{ConfigJson: []byte(" {} ")},
			&legacypb.InvokeResponse{Success: true, Error: "a warning"}, "{}", nil, "", "", false},
		"failure": {&docpb.InvokeRequest{}, &legacypb.InvokeResponse{Error: "no"}, "{}", nil, "", "no", false},
		"failure without a text": {&docpb.InvokeRequest{}, &legacypb.InvokeResponse{}, "{}", nil, "",
			"the tool failed without an error message", false},
		"arguments that are no text":      {req: &docpb.InvokeRequest{ArgsJson: []byte("\xff")}, refused: true},
		"a configuration that is no text": {req: &docpb.InvokeRequest{ConfigJson: []byte("\xff")}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &oldTool{answer: test.answer}
			server := grpc.NewServer()
			legacypb.RegisterCapabilityServiceServer(server, b)
			resp, err := docpb.NewCapabilityClient(serve(t, translator(serve(t, server)))).Invoke(t.Context(), test.req)
			if test.refused {
				if status.Code(err) != codes.InvalidArgument || b.got != nil {
					t.Errorf("got %v; the backend got %v", err, b.got)
				}
				return
			}
			if err != nil || string(resp.GetResultJson()) != test.result || resp.GetError() != test.failure {
				t.Errorf("got %v, %v", resp, err)
			}
			if b.got.GetParameters() != test.parameters || !maps.Equal(b.got.GetContext(), test.context) {
				t.Errorf("the backend got %v", b.got)
			}
		})
	}
}

// newTool is a backend of the doc dialect that keeps its last request.
type newTool struct {
	docpb.UnimplementedCapabilityServer
	answer *docpb.InvokeResponse
	got    *docpb.InvokeRequest
}

func (b *newTool) Invoke(_ context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	b.got = req
	return b.answer, nil
}

// TestLegacyCallers: a caller of the legacy dialect reaches a backend of another one, which does not get the user.
func TestLegacyCallers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		context map[string]string
		answer  *docpb.InvokeResponse
		config  string
		success bool
		code    codes.Code
	}{
		"success": {map[string]string{"session_id": "s", "thread_id": "t", "user_id": "ann", "region": "eu"},
			&docpb.InvokeResponse{ResultJson: []byte("1")}, `{"context":{"region":"eu"}}`, true, codes.OK},
		"failure": {nil, &docpb.InvokeResponse{Error: "no"}, `{"context":{}}`, false, codes.OK},
		"result without text": {nil, &docpb.InvokeResponse{ResultJson: []byte("\xff")}, `{"context":{}}`, false,
			codes.DataLoss},
		"failure without text": {nil, &docpb.InvokeResponse{ResultJson: []byte("\xff"), Error: "no"}, `{"context":{}}`,
			false, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &newTool{answer: test.answer}
			server := grpc.NewServer()
			docpb.RegisterCapabilityServer(server, b)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-capability-id", "c")
			resp, err := legacypb.NewCapabilityServiceClient(serve(t, translator(serve(t, server)))).Invoke(ctx,
				&legacypb.InvokeRequest{ToolName: "t", Parameters: "[1]", Context: test.context})
			if status.Code(err) != test.code || resp.GetSuccess() != test.success ||
				resp.GetError() != test.answer.GetError() {
				t.Errorf("got %v, %v", resp, err)
			}
			if got := b.got; string(got.GetConfigJson()) != test.config || got.GetCapabilityId() != "c" ||
				got.GetSessionId() != test.context["session_id"] || got.GetThreadId() != test.context["thread_id"] {
				t.Errorf("the backend got %v", b.got)
			}
		})
	}
}

// TestUploadsThatFail: a chunk that is not one is the caller's fault, whatever the backend says, and a failed upload
// has no size.
func TestUploadsThatFail(t *testing.T) {
	t.Parallel()
	bothWays(t, func(ctx context.Context, t *testing.T, from string) {
		conn := chain(t, from, func(_ context.Context, next func() (piece, error)) (receipt, error) {
			for {
				if _, err := next(); err != nil {
					return receipt{err: "no room", size: 3}, nil
				}
			}
		})
		up := open(ctx, t, conn, from)
		check.Must(t, up.send(piece{data: []byte("abc")}))
		check.Must(t, up.CloseSend())
		if r, err := up.reply(); err != nil || r != (receipt{err: "no room"}) {
			t.Errorf("got %+v, %v", r, err)
		}
		path := "/" + dialect.DocService + "/UploadInputArtifact"
		if from == "live" {
			path = "/" + dialect.LiveService + "/UploadInputArtifact"
		}
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, path,
			grpc.ForceCodec(localgrpc.Bytes{}))
		check.Must(t, err)
		malformed := []byte{0x0a, 9, 'x'}
		check.Must(t, stream.SendMsg(&malformed))
		err = stream.RecvMsg(new([]byte))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "REQUEST_MALFORMED") {
			t.Errorf("a malformed chunk: %v", err)
		}
	})
}

// TestAnswersThatCannotBeRead: an answer that is no message of its dialect is the backend's fault, and a request that
// the backend cannot read is not.
func TestAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(grpc.ServerStream) error
		want   string
	}{
		"an answer": {func(s grpc.ServerStream) error { // as localgrpc has it
			if err := s.SendHeader(metadata.Pairs("x-begun", "1")); err != nil {
				return err
			}
			return gatewaystatus.Error(&call.Refusal{Reason: "ANSWER_MALFORMED"}, call.Sent)
		}, "ANSWER_MALFORMED: "},
		"a request": {func(grpc.ServerStream) error {
			return status.Error(codes.Internal, "grpc: error unmarshalling request")
		}, "grpc: error unmarshalling request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := grpc.NewServer(grpc.ForceServerCodec(localgrpc.Bytes{}),
				grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return test.answer(s) }))
			_, err := livepb.NewCapabilityClient(serve(t, translator(serve(t, backend)))).Invoke(t.Context(),
				&livepb.InvokeRequest{})
			if said := status.Convert(err); said.Code() != codes.Internal ||
				!strings.HasPrefix(said.Message(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestHeadersOfAHopStayThere: a translated call has the metadata of applications alone.
func TestHeadersOfAHopStayThere(t *testing.T) {
	t.Parallel()
	got := dialect.Custom(metadata.Pairs(":path", "/", "grpc-timeout", "1S", "te", "trailers", "connection", "close",
		"x-a", "1", "grpc-trace-bin", "t"))
	if want := metadata.Pairs("x-a", "1", "grpc-trace-bin", "t"); len(got) != len(want) || got.Get("x-a")[0] != "1" ||
		got.Get("grpc-trace-bin")[0] != "t" {
		t.Errorf("got %v", got)
	}
}

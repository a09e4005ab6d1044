package dialect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

type legacyBackend struct {
	legacypb.UnimplementedCapabilityServiceServer
}

func (legacyBackend) Invoke(_ context.Context, req *legacypb.InvokeRequest) (*legacypb.InvokeResponse, error) {
	return &legacypb.InvokeResponse{Result: req.GetParameters(), Success: true}, nil
}

// BenchmarkTranslator measures a translation: the same call of a backend over loopback, directly and through a
// translator, which adds a gRPC server and a client.
func BenchmarkTranslator(b *testing.B) {
	backend := grpc.NewServer()
	legacypb.RegisterCapabilityServiceServer(backend, legacyBackend{})
	conn := serve(b, backend)
	translator := serve(b, translator(conn))
	for _, size := range []int{100, 100 << 10} {
		args := bytes.Repeat([]byte("x"), size)
		b.Run(fmt.Sprint("direct/", size), func(b *testing.B) {
			client := legacypb.NewCapabilityServiceClient(conn)
			req := &legacypb.InvokeRequest{ToolName: "t", Parameters: string(args),
				Context: map[string]string{"session_id": "s"}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Invoke(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("translated/", size), func(b *testing.B) {
			client := docpb.NewCapabilityClient(translator)
			req := &docpb.InvokeRequest{ToolName: "t", ArgsJson: args, SessionId: "s"}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Invoke(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestStreamOfLegacy: a StreamInvoke at a legacy backend gets one chunk, which is the last.
func TestStreamOfLegacy(t *testing.T) {
	t.Parallel()
	backend := grpc.NewServer()
	legacypb.RegisterCapabilityServiceServer(backend, legacyBackend{})
	stream, err := docpb.NewCapabilityClient(serve(t, translator(serve(t, backend)))).StreamInvoke(t.Context(),
		&docpb.InvokeRequest{ArgsJson: []byte(`"a"`)})
	check.Must(t, err)
	chunk, err := stream.Recv()
	if err != nil || string(chunk.GetData()) != `"a"` || !chunk.GetDone() || chunk.GetError() != "" {
		t.Errorf("%v, %v", chunk, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("more: %v", err)
	}
}

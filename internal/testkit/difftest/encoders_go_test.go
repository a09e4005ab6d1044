package difftest

import (
	"context"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// newer adds fields of a newer proto to the message.
func newer[M proto.Message](t *testing.T, s *spoken, m M) M {
	t.Helper()
	m.ProtoReflect().SetUnknown(s.Unknown)
	return m
}

// speakGo makes the calls with a client in this process.
func (w *deployment) speakGo(t *testing.T, name string, call func(*testing.T, *spoken) error) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for _, d := range []string{live, doc, legacy} {
			for _, s := range shapes("grpcgo-"+d, d) {
				s.Metadata = w.metadata(name, d)
				if err := call(t, &s); err != nil {
					t.Errorf("%v: %v", &s, err)
					continue
				}
				w.compare(t, &s)
			}
		}
	})
}

func (w *deployment) grpcGo(t *testing.T) func(*testing.T, *spoken) error {
	t.Helper()
	conn, err := clienttest.NewConn("passthrough:///"+w.gateway.addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return func(t *testing.T, s *spoken) error {
		t.Helper()
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.New(s.Metadata))
		var options []grpc.CallOption
		if s.Gzip {
			options = append(options, grpc.UseCompressor(gzip.Name))
		}
		path, request := s.path(), newer(t, s, s.request())
		if s.Method == "Invoke" {
			return conn.Invoke(ctx, path, request, s.answer(), options...)
		}
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path, options...)
		if err != nil {
			return err
		}
		if err := stream.SendMsg(request); err != nil {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		return stream.RecvMsg(&livepb.InvokeChunk{})
	}
}

func (s *spoken) path() string {
	if s.Method == "Invoke" {
		return invokePaths[s.Dialect]
	}
	return streamPaths[s.Dialect]
}

func (s *spoken) answer() proto.Message {
	if s.Dialect == legacy {
		return &legacypb.InvokeResponse{}
	}
	return &livepb.InvokeResponse{} // doc's message has the same encoding
}

func (w *deployment) connectGo(t *testing.T) func(*testing.T, *spoken) error {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: check.Patience}
	check.Cleanup(t, client.CloseIdleConnections)
	return func(t *testing.T, s *spoken) error {
		t.Helper()
		switch s.Dialect {
		case live:
			return connected[livepb.InvokeRequest](t.Context(), client, w, s,
				newer(t, s, s.request()).(*livepb.InvokeRequest))
		case doc:
			return connected[docpb.InvokeRequest](t.Context(), client, w, s,
				newer(t, s, s.request()).(*docpb.InvokeRequest))
		}
		return connected[legacypb.InvokeRequest](t.Context(), client, w, s,
			newer(t, s, s.request()).(*legacypb.InvokeRequest))
	}
}

func connected[M any](ctx context.Context, client *http.Client, w *deployment, s *spoken, m *M) error {
	options := []connect.ClientOption{connect.WithGRPC()}
	if s.Gzip {
		options = append(options, connect.WithSendGzip())
	}
	request := connect.NewRequest(m)
	for name, value := range s.Metadata {
		request.Header().Set(name, value)
	}
	url := "http://" + w.gateway.addr + s.path()
	if s.Method == "Invoke" { // other methods have their own checks of responses: any message will do
		_, err := connect.NewClient[M, legacypb.HealthCheckRequest](client, url, options...).CallUnary(ctx, request)
		return err
	}
	stream, err := connect.NewClient[M, legacypb.HealthCheckRequest](client, url, options...).CallServerStream(ctx,
		request)
	if err != nil {
		return err
	}
	for stream.Receive() {
	}
	return stream.Close()
}

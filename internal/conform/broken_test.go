package conform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// broken is a capability of the doc dialect that violates one rule.
type broken struct {
	docpb.UnimplementedCapabilityServer
	rule    string        // name of the rule; "": none
	ended   chan struct{} // closed with the test
	slots   chan struct{} // of uploads
	calls   chan struct{} // of tools; only to delay others
	second  chan struct{} // signals another call
	working atomic.Int32  // calls of the tool
	results atomic.Int32  // that change

	mu    sync.Mutex
	files map[string][]byte
}

const (
	tool       = "add"
	slowTool   = "wait"
	goodResult = `{"sum":3,"of":["ä","b"]}`
)

// serveBroken runs a capability that violates one rule.
func serveBroken(t *testing.T, rule string) (addr string) {
	t.Helper()
	b := &broken{rule: rule, ended: make(chan struct{}), slots: make(chan struct{}, 8),
		second: make(chan struct{}, 1), calls: make(chan struct{}, 8), files: map[string][]byte{}}
	received := 16 << 20
	if rule == "large-message" {
		received = 1 << 20
	}
	switch rule {
	case "deadline":
		addr = timeless(t, b, "Invoke")
	case "deadline-files":
		addr = timeless(t, b, "UploadInputArtifact")
	default:
		addr = gatewaytest.Serve(t, func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, b) },
			grpc.MaxRecvMsgSize(received)).Addr
	}
	t.Cleanup(func() { close(b.ended) }) // before the server ends
	return addr
}

// timeless removes the deadlines of a method's calls, which grpc-go would enforce.
func timeless(t *testing.T, b *broken, method string) (addr string) {
	t.Helper()
	inner := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	docpb.RegisterCapabilityServer(inner, b)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == method {
			r.Header.Del("Grpc-Timeout")
		}
		inner.ServeHTTP(w, r)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func (b *broken) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: b.rule != "health", Message: "warming up"}, nil
}

func (b *broken) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	if b.rule == "discovery" && req.GetToolName() == "list_tools" {
		return &docpb.InvokeResponse{ResultJson: []byte(`{"tools":[]}`)}, nil
	}
	if b.rule == "cancel" {
		b.calls <- struct{}{}
		defer func() { <-b.calls }()
	}
	switch req.GetToolName() {
	case tool:
		return b.add(ctx, req)
	case slowTool:
		<-ctx.Done()
		if b.rule == "cancel" && errors.Is(ctx.Err(), context.Canceled) {
			<-b.ended
		}
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if b.rule == "unknown-tool" {
		return nil, status.Error(codes.NotFound, "no such tool")
	}
	return &docpb.InvokeResponse{Error: "no such tool"}, nil
}

func (b *broken) add(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	switch {
	case b.rule == "invoke":
		return &docpb.InvokeResponse{ResultJson: []byte("three")}, nil
	case b.rule == "metadata" && len(md["x-request-id"]) > 0:
		return nil, status.Error(codes.InvalidArgument, "unexpected metadata")
	case b.rule == "unknown-fields" && len(req.ProtoReflect().GetUnknown()) > 0:
		return nil, status.Error(codes.InvalidArgument, "unexpected field")
	case !json.Valid(req.GetArgsJson()) && b.rule == "tool-error":
		return nil, status.Error(codes.Unknown, "exception calling application: Expecting value: line 1 column 11")
	case !json.Valid(req.GetArgsJson()):
		return &docpb.InvokeResponse{Error: "bad arguments"}, nil
	case b.rule == "concurrent" && b.crowded():
		return nil, status.Error(codes.Unavailable, "busy")
	}
	result := goodResult
	switch {
	case b.rule == "another-result" && len(md["x-request-id"]) > 0:
		result = `{"sum":4}`
	case b.rule == "changing-result":
		result = fmt.Sprintf(`{"sum":%d}`, b.results.Add(1))
	}
	return &docpb.InvokeResponse{ResultJson: []byte(result)}, nil
}

// crowded reports whether another call arrives within a short time.
func (b *broken) crowded() bool {
	if b.working.Add(1) > 1 {
		select {
		case b.second <- struct{}{}:
		default:
		}
	}
	defer b.working.Add(-1)
	select {
	case <-b.second:
		return true
	case <-time.After(50 * time.Millisecond):
		return b.working.Load() > 1
	}
}

func (b *broken) StreamInvoke(req *docpb.InvokeRequest, stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	if req.GetToolName() != tool {
		if b.rule == "stream-error" {
			return status.Error(codes.NotFound, "no such tool")
		}
		if b.rule == "more-after-an-error" {
			if err := stream.Send(&docpb.InvokeChunk{Error: "no such tool"}); err != nil {
				return err
			}
			return stream.Send(&docpb.InvokeChunk{Done: true})
		}
		return stream.Send(&docpb.InvokeChunk{Done: true, Error: "no such tool"})
	}
	at := bytes.IndexByte([]byte(goodResult), 0xC3) + 1 // within a character
	chunks := []*docpb.InvokeChunk{{Data: []byte(goodResult[:at])}, {Data: []byte(goodResult[at:]), Done: true}}
	switch b.rule {
	case "stream":
		return status.Error(codes.Internal, "no")
	case "stream-done":
		chunks[1].Done = false
	case "stream-end":
		chunks = append(chunks, &docpb.InvokeChunk{Done: true})
	case "stream-result":
		chunks[0].Data = []byte(`{"sum":4,"of":["` + "\xc3")
	}
	for _, c := range chunks {
		if err := stream.Send(c); err != nil {
			return err
		}
	}
	return nil
}

func (b *broken) UploadInputArtifact(stream grpc.ClientStreamingServer[docpb.UploadInputArtifactChunk,
	docpb.UploadInputArtifactResponse]) error {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-stream.Context().Done():
		return status.FromContextError(stream.Context().Err()).Err()
	}
	var data []byte
	for first := true; ; first = false {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if b.rule == "cancel-files" && status.Code(err) == codes.Canceled {
				<-b.ended
			}
			return err
		}
		if named := chunk.GetFilename() != "" && chunk.GetMimeType() != ""; named != first {
			return status.Errorf(codes.InvalidArgument, "a chunk with the name %q", chunk.GetFilename())
		}
		data = append(data, chunk.GetData()...)
	}
	if len(data) == 0 && b.rule == "upload-empty" {
		return stream.SendAndClose(&docpb.UploadInputArtifactResponse{Error: "nothing came"})
	}
	b.mu.Lock()
	id := fmt.Sprintf("file-%d", len(b.files)+1)
	b.files[id] = data
	b.mu.Unlock()
	switch b.rule {
	case "upload":
		id = ""
	case "upload-ids":
		id = "file-1"
	}
	return stream.SendAndClose(&docpb.UploadInputArtifactResponse{CapabilityArtifactId: id})
}

func (b *broken) DownloadOutputArtifact(req *docpb.DownloadOutputArtifactRequest,
	stream grpc.ServerStreamingServer[docpb.ArtifactChunk]) error {
	b.mu.Lock()
	data, there := b.files[req.GetArtifactId()]
	b.mu.Unlock()
	switch {
	case !there && b.rule == "download-unknown":
		return status.Error(codes.NotFound, "no such file")
	case !there:
		return stream.Send(&docpb.ArtifactChunk{Done: true, Error: "no such file"})
	case len(data) == 0 && b.rule == "download-empty":
		return nil
	case len(data) == 0 && b.rule == "bytes-of-nothing":
		return stream.Send(&docpb.ArtifactChunk{Data: []byte("a"), Done: true})
	case len(data) == 0:
		return stream.Send(&docpb.ArtifactChunk{Filename: "conform.txt", MimeType: "text/plain", Done: true})
	}
	chunks := []*docpb.ArtifactChunk{{Data: data[:1000], Filename: "conform.txt", MimeType: "text/plain"},
		{Data: data[1000:], Done: true}}
	switch b.rule {
	case "download":
		chunks[1].Data = data[:len(data)-1000]
	case "download-name":
		chunks[0].Filename, chunks[1].Filename = "", "conform.txt"
	case "download-done":
		chunks[1].Done = false
	case "download-end":
		chunks[0].Done = false
		chunks = append(chunks, &docpb.ArtifactChunk{Done: true})
	}
	for _, c := range chunks {
		if err := stream.Send(c); err != nil {
			return err
		}
	}
	return nil
}

// brokenLive is a capability of the live dialect, optionally with wrong sizes.
type brokenLive struct {
	livepb.UnimplementedCapabilityServer
	rule string
}

func (b brokenLive) Healthcheck(context.Context, *livepb.HealthRequest) (*livepb.HealthResponse, error) {
	return &livepb.HealthResponse{Ready: true}, nil
}

func (b brokenLive) Invoke(context.Context, *livepb.InvokeRequest) (*livepb.InvokeResponse, error) {
	return &livepb.InvokeResponse{Error: "no such tool"}, nil
}

func (b brokenLive) UploadInputArtifact(stream grpc.ClientStreamingServer[livepb.UploadInputArtifactChunk,
	livepb.UploadInputArtifactResponse]) error {
	var size uint64
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		size += uint64(len(chunk.GetData()))
	}
	reply := &livepb.UploadInputArtifactResponse{CapabilityArtifactId: fmt.Sprint("file of ", size), SizeBytes: size}
	if b.rule == "upload-size" {
		reply.SizeBytes = 3 // chunks instead of bytes
	}
	return stream.SendAndClose(reply)
}

// brokenLegacy is a capability of the legacy dialect that violates one rule.
type brokenLegacy struct {
	legacypb.UnimplementedCapabilityServiceServer
	rule string
}

func (b brokenLegacy) Invoke(_ context.Context, req *legacypb.InvokeRequest) (*legacypb.InvokeResponse, error) {
	switch {
	case req.GetToolName() != tool && b.rule == "unknown-tool":
		return &legacypb.InvokeResponse{}, nil // fails without a reason
	case req.GetToolName() != tool:
		return &legacypb.InvokeResponse{Error: "no such tool"}, nil
	case !json.Valid([]byte(req.GetParameters())) && b.rule == "tool-error":
		return &legacypb.InvokeResponse{Success: true, Error: "bad parameters"}, nil
	case !json.Valid([]byte(req.GetParameters())):
		return &legacypb.InvokeResponse{Error: "bad parameters"}, nil
	case b.rule == "context-optional" && req.GetContext()["session_id"] == "":
		return nil, status.Error(codes.Unknown, "exception calling application: 'session_id'")
	}
	return &legacypb.InvokeResponse{Result: goodResult, Success: b.rule != "invoke"}, nil
}

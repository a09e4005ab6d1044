package selu_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/selu"
	"github.com/capgate/capgate/internal/testkit/check"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// capability is a container that records what it receives.
type capability struct {
	livepb.UnimplementedCapabilityServer
	polls, calls atomic.Int64
	failure      error
	metadata     chan metadata.MD
	request      chan *livepb.InvokeRequest
	uploads      chan *livepb.UploadInputArtifactChunk
}

func (c *capability) Healthcheck(context.Context, *livepb.HealthRequest) (*livepb.HealthResponse, error) {
	if c.polls.Add(1) < 3 {
		return nil, status.Error(codes.Unavailable, "starting")
	}
	return &livepb.HealthResponse{Ready: true}, nil
}

func (c *capability) Invoke(ctx context.Context, req *livepb.InvokeRequest) (*livepb.InvokeResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.metadata <- md
	c.request <- req
	if c.calls.Add(1) == 1 && c.failure != nil {
		return nil, c.failure
	}
	switch req.GetToolName() {
	case "fail":
		return &livepb.InvokeResponse{Error: "no such city"}, nil
	case "list_tools":
		return &livepb.InvokeResponse{ResultJson: []byte(`[{"name":"a","description":"d","input_schema":{}}]`)}, nil
	case "list_twice":
		return &livepb.InvokeResponse{ResultJson: []byte(`[{"name":"a","description":"d","input_schema":{}},` +
			`{"name":"a","description":"d","input_schema":{}}]`)}, nil
	}
	return &livepb.InvokeResponse{ResultJson: req.GetArgsJson()}, nil
}

func (c *capability) UploadInputArtifact(s grpc.ClientStreamingServer[livepb.UploadInputArtifactChunk,
	livepb.UploadInputArtifactResponse]) error {
	for {
		chunk, err := s.Recv()
		if err != nil {
			return s.SendAndClose(&livepb.UploadInputArtifactResponse{CapabilityArtifactId: "f-1"})
		}
		c.uploads <- chunk
	}
}

func (*capability) DownloadOutputArtifact(q *livepb.DownloadOutputArtifactRequest,
	s grpc.ServerStreamingServer[livepb.ArtifactChunk]) error {
	if q.GetCapabilityArtifactId() == "empty" {
		return s.Send(&livepb.ArtifactChunk{Filename: "a", Done: true})
	}
	if err := s.Send(&livepb.ArtifactChunk{Filename: "a", MimeType: "text/csv", Data: []byte("x,")}); err != nil {
		return err
	}
	return s.Send(&livepb.ArtifactChunk{Data: []byte("y"), Done: true})
}

// serve runs a container and returns the orchestrator's channel to it.
func serve(t *testing.T, session string) (*capability, *selu.Client) {
	t.Helper()
	c := &capability{metadata: make(chan metadata.MD, 16), request: make(chan *livepb.InvokeRequest, 16),
		uploads: make(chan *livepb.UploadInputArtifactChunk, 16)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := grpc.NewServer()
	livepb.RegisterCapabilityServer(server, c)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	host, port, err := net.SplitHostPort(ln.Addr().String())
	check.Must(t, err)
	number, err := strconv.Atoi(port)
	check.Must(t, err)
	client, err := selu.Dial(selu.Container{Capability: "weather", Session: session, Host: host, Port: number})
	check.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return c, client
}

// TestWaitReady: the health check is polled until it succeeds.
func TestWaitReady(t *testing.T) {
	t.Parallel()
	c, client := serve(t, "")
	check.Must(t, client.WaitReady(t.Context()))
	if n := c.polls.Load(); n != 3 {
		t.Errorf("%d polls", n)
	}
}

// TestInvoke: a call has no further metadata; the message has the capability and the session.
func TestInvoke(t *testing.T) {
	t.Parallel()
	c, client := serve(t, "s-1")
	result, err := client.Invoke(t.Context(), selu.Call{Tool: "echo", Args: `{"a":1}`, Thread: "t-1"})
	if err != nil || string(result) != `{"a":1}` {
		t.Fatalf("%s %v", result, err)
	}
	for name := range check.Received(t, c.metadata, "the metadata of the call") {
		switch name {
		case ":authority", "content-type", "user-agent", "grpc-accept-encoding": // HTTP/2 and gRPC
		default:
			t.Errorf("the call has %s", name)
		}
	}
	if q := check.Received(t, c.request, "the request"); q.GetCapabilityId() != "weather" ||
		q.GetSessionId() != "s-1" || q.GetThreadId() != "t-1" ||
		string(q.GetConfigJson()) != "{}" {
		t.Errorf("the request is %v", q)
	}
	var failed *selu.ToolError
	if _, err := client.Invoke(t.Context(), selu.Call{Tool: "fail"}); !errors.As(err, &failed) ||
		failed.Text != "no such city" {
		t.Errorf("a tool's failure: %v; failed %+v", err, failed)
	}
}

// TestRepeats: any error whose text contains "connect" is treated as a connection error.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for failure, repeated := range map[string]int{
		"the Connection was lost": 1, "cannot connect": 1, "the gateway was lost": 0,
	} {
		c, client := serve(t, "")
		c.failure = status.Error(codes.Unavailable, failure)
		_, err := client.Invoke(t.Context(), selu.Call{Tool: "echo"})
		if client.Repeated() != repeated || (err == nil) != (repeated > 0) || c.calls.Load() != int64(1+repeated) {
			t.Errorf("%s: repeated %d times, %v; c.calls %+v", failure, client.Repeated(), err, c.calls.Load())
		}
	}
}

// TestDiscover: the list of tools is checked.
func TestDiscover(t *testing.T) {
	t.Parallel()
	_, client := serve(t, "")
	tools, err := client.Discover(t.Context(), "")
	if err != nil || len(tools) != 1 || tools[0].Name != "a" {
		t.Errorf("%v %v", tools, err)
	}
	if _, err := client.Discover(t.Context(), "list_twice"); err == nil {
		t.Error("a tool that is listed twice was accepted")
	}
}

// TestFiles: chunks have 256 KiB, and only the first has the name. An empty download is an error.
func TestFiles(t *testing.T) {
	t.Parallel()
	c, client := serve(t, "")
	id, err := client.Upload(t.Context(), selu.File{Name: "a", MIME: "text/csv", Data: make([]byte, 300<<10)})
	if err != nil || id != "f-1" {
		t.Fatalf("%s %v", id, err)
	}
	first, second := check.Received(t, c.uploads, "the upload"), check.Received(t, c.uploads, "the upload")
	if len(first.GetData()) != 256<<10 || first.GetFilename() != "a" || first.GetMimeType() != "text/csv" ||
		len(second.GetData()) != 44<<10 || second.GetFilename() != "" || second.GetMimeType() != "" ||
		len(c.uploads) != 0 {
		t.Errorf("the chunks are not those of the orchestrator: %+v; %+v; %d more", first, second, len(c.uploads))
	}
	_, err = client.Upload(t.Context(), selu.File{Name: "b"})
	if chunk := check.Received(t, c.uploads, "the upload"); err != nil || chunk.GetFilename() != "b" ||
		len(chunk.GetData()) != 0 {
		t.Errorf("an empty file: %v %v", chunk, err)
	}
	f, err := client.Download(t.Context(), "f-1")
	if err != nil || f.Name != "a" || f.MIME != "text/csv" || !bytes.Equal(f.Data, []byte("x,y")) {
		t.Errorf("%v %v", f, err)
	}
	if _, err := client.Download(t.Context(), "empty"); err == nil {
		t.Error("an empty download was accepted")
	}
}

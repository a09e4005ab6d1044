package gatewaytest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// The tools of a Capability. Break and Block are also file names: uploads with that name, and downloads with that id,
// end like calls of the tool. So does Cut for downloads.
const (
	Echo  = "echo"       // returns its arguments; streamed, in two chunks
	Fail  = "fail"       // a tool error that quotes its arguments
	Cut   = "cut"        // streamed, ends with OK but without done
	Block = "block"      // waits for Release, or until its caller leaves
	Hold  = "hold"       // echo; streamed, waits for Release between its two chunks
	Break = "break"      // a gRPC error with details
	Empty = "empty"      // returns an empty result
	Mute  = "mute"       // a tool error; in the legacy dialect, one without a text
	List  = "list_tools" // the discovery tool: the result of Lists
)

// MuteError is the error of Mute if a text is required.
const MuteError = "it says nothing"

// RefusedFile is the name of a file that a Capability rejects, with an error in the response.
const RefusedFile = "refused.txt"

// chunkBytes is the orchestrator's size of a file's chunks.
const chunkBytes = 256 << 10

// File is an artifact.
type File struct {
	Name, MIME string
	Data       []byte
}

// Seen is a call that reached a Capability.
type Seen struct {
	Path     string
	Metadata metadata.MD
	Request  *docpb.InvokeRequest // Invoke and StreamInvoke
	Context  map[string]string    // Invoke in the legacy dialect
	Left     time.Duration        // time until its deadline; 0 if it has none
}

// Capability is a small capability for any dialect.
type Capability struct {
	Name  string                                            // in the trailer "served-by"
	Files string                                            // prefix of ids of files; "": the name
	Lists func() (result []byte, failure string, err error) // of List; nil: no such tool

	docpb.UnimplementedCapabilityServer
	mu      sync.Mutex
	seen    []Seen
	news    chan struct{} // closed, and replaced, by every call
	files   map[string]File
	entered chan struct{} // one value for each waiting Block
	release chan struct{}
	once    sync.Once
}

// NewCapability returns a capability without files.
func NewCapability(name string) *Capability {
	return &Capability{
		Name: name, files: map[string]File{}, news: make(chan struct{}),
		entered: make(chan struct{}, 1024), release: make(chan struct{}),
	}
}

// Serve runs the capability in a dialect, until the test ends.
func (c *Capability) Serve(t testing.TB, d call.Dialect, opts ...grpc.ServerOption) *Backend {
	t.Helper()
	return c.ServeOn(t, check.Listen(t), d, opts...)
}

// ServeOn is Serve on a listener.
func (c *Capability) ServeOn(t testing.TB, ln net.Listener, d call.Dialect, opts ...grpc.ServerOption) *Backend {
	t.Helper()
	check.Cleanup(t, c.Release)
	return ServeOn(t, ln, func(s *grpc.Server) {
		switch d {
		case call.Live:
			livepb.RegisterCapabilityServer(s, live{c: c})
		case call.Legacy:
			legacypb.RegisterCapabilityServiceServer(s, legacy{c: c})
		default:
			docpb.RegisterCapabilityServer(s, c)
		}
	}, opts...)
}

// Blocked delivers a value for each waiting call of Block or Hold.
func (c *Capability) Blocked() <-chan struct{} { return c.entered }

// Release ends all calls of Block and Hold, including later ones.
func (c *Capability) Release() { c.once.Do(func() { close(c.release) }) }

// Seen returns the calls so far, except Healthcheck, in the order of arrival.
func (c *Capability) Seen() []Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Seen(nil), c.seen...)
}

// WaitSeen waits until n calls have arrived.
func (c *Capability) WaitSeen(t testing.TB, n int) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprintf("%d calls at %s", n, c.Name), func() (bool, int, <-chan struct{}) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.seen) >= n, len(c.seen), c.news
	})
}

// Keep stores an artifact, and returns its id.
func (c *Capability) Keep(f File) (id string) {
	id, _ = c.keep(f)
	return id
}

// File returns an uploaded artifact.
func (c *Capability) File(id string) (File, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.files[id]
	return f, ok
}

// Kept returns the number of artifacts.
func (c *Capability) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.files)
}

// see records a call, and sets the trailer.
func (c *Capability) see(ctx context.Context, req *docpb.InvokeRequest) error {
	return c.saw(ctx, Seen{Request: req})
}

func (c *Capability) saw(ctx context.Context, seen Seen) error {
	seen.Metadata, _ = metadata.FromIncomingContext(ctx)
	seen.Path, _ = grpc.Method(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		seen.Left = time.Until(deadline)
	}
	c.mu.Lock()
	c.seen = append(c.seen, seen)
	close(c.news)
	c.news = make(chan struct{})
	c.mu.Unlock()
	return grpc.SetTrailer(ctx, metadata.Pairs("served-by", c.Name))
}

// Invoke runs a tool.
func (c *Capability) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	if err := c.see(ctx, req); err != nil {
		return nil, err
	}
	result, failure, err := c.run(ctx, req)
	if err != nil {
		return nil, err
	}
	return &docpb.InvokeResponse{ResultJson: result, Error: failure}, nil
}

// StreamInvoke runs a tool and sends its result in two halves.
func (c *Capability) StreamInvoke(req *docpb.InvokeRequest,
	stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	if err := c.see(stream.Context(), req); err != nil {
		return err
	}
	result, failure, err := c.run(stream.Context(), req)
	if err != nil {
		return err
	}
	half := len(result) / 2
	if err := stream.Send(&docpb.InvokeChunk{Data: result[:half]}); err != nil || req.GetToolName() == Cut {
		return err
	}
	if req.GetToolName() == Hold {
		if err := c.wait(stream.Context()); err != nil {
			return err
		}
	}
	return stream.Send(&docpb.InvokeChunk{Data: result[half:], Done: true, Error: failure})
}

// SetLists sets Lists while the capability serves.
func (c *Capability) SetLists(lists func() ([]byte, string, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Lists = lists
}

func (c *Capability) run(ctx context.Context, req *docpb.InvokeRequest) (result []byte, failure string, err error) {
	switch req.GetToolName() {
	case List:
		c.mu.Lock()
		lists := c.Lists
		c.mu.Unlock()
		if lists != nil {
			return lists()
		}
	case Echo, Cut, Hold:
		return req.GetArgsJson(), "", nil
	case Empty:
		return nil, "", nil
	case Mute:
		return nil, MuteError, nil
	case Fail:
		return nil, fmt.Sprintf("the tool failed for %s", req.GetArgsJson()), nil
	case Block:
		return json.RawMessage(`"released"`), "", c.wait(ctx)
	case Break:
		st, err := status.New(codes.DataLoss, "broke: 100% of it, naïvely").WithDetails(
			&errdetails.ErrorInfo{Reason: "BROKE", Domain: "capability.example"})
		if err != nil {
			return nil, "", err
		}
		return nil, "", st.Err()
	}
	return nil, "", status.Errorf(codes.InvalidArgument, "no tool %q", req.GetToolName())
}

// wait waits for Release, or until the caller leaves.
func (c *Capability) wait(ctx context.Context) error {
	c.entered <- struct{}{}
	select {
	case <-c.release:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// Healthcheck reports readiness.
func (c *Capability) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

// UploadInputArtifact stores a file.
func (c *Capability) UploadInputArtifact(stream grpc.ClientStreamingServer[docpb.UploadInputArtifactChunk,
	docpb.UploadInputArtifactResponse]) error {
	if err := c.see(stream.Context(), nil); err != nil {
		return err
	}
	var f File
	for first := true; ; first = false {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if first {
			f.Name, f.MIME = chunk.GetFilename(), chunk.GetMimeType()
		}
		f.Data = append(f.Data, chunk.GetData()...)
	}
	if err := c.file(stream.Context(), f.Name); err != nil {
		return err
	}
	id, failure := c.keep(f)
	return stream.SendAndClose(&docpb.UploadInputArtifactResponse{CapabilityArtifactId: id, Error: failure})
}

// file ends a call about a file with a tool's name like a call of that tool.
func (c *Capability) file(ctx context.Context, name string) error {
	if name != Break && name != Block {
		return nil
	}
	_, _, err := c.run(ctx, &docpb.InvokeRequest{ToolName: name})
	return err
}

func (c *Capability) keep(f File) (id, failure string) {
	if f.Name == RefusedFile {
		return "", "this file is not wanted"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id = fmt.Sprintf("%s-%d", cmp.Or(c.Files, c.Name), len(c.files)+1)
	c.files[id] = f
	return id, ""
}

// DownloadOutputArtifact sends an uploaded file.
func (c *Capability) DownloadOutputArtifact(req *docpb.DownloadOutputArtifactRequest,
	stream grpc.ServerStreamingServer[docpb.ArtifactChunk]) error {
	if err := c.see(stream.Context(), nil); err != nil {
		return err
	}
	if err := c.file(stream.Context(), req.GetArtifactId()); err != nil {
		return err
	}
	if req.GetArtifactId() == Cut {
		return stream.Send(&docpb.ArtifactChunk{Filename: Cut, Data: []byte("some")})
	}
	f, ok := c.File(req.GetArtifactId())
	if !ok {
		return stream.Send(&docpb.ArtifactChunk{Done: true, Error: "no such file"})
	}
	chunk := &docpb.ArtifactChunk{Filename: f.Name, MimeType: f.MIME}
	for rest := f.Data; ; chunk = new(docpb.ArtifactChunk) {
		n := min(len(rest), chunkBytes)
		chunk.Data, rest = rest[:n], rest[n:]
		chunk.Done = len(rest) == 0
		if err := stream.Send(chunk); err != nil || chunk.GetDone() {
			return err
		}
	}
}

package container

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// Client calls a container in one dialect. Its messages are those of the doc dialect, which have
// the same bytes in the live one except for uploads.
type Client struct {
	Conn    grpc.ClientConnInterface
	Dialect call.Dialect // Doc, Live or Legacy
}

// Question is one call of a tool.
type Question struct {
	Tool    string
	Args    []byte            // a JSON object
	Session string            // "": none
	Context map[string]string // of the legacy dialect, beside session_id
	Unknown []byte            // fields that no dialect has, as they are on the wire
}

// Answer is what a tool said with gRPC status OK.
type Answer struct {
	Result []byte
	Failed bool
	Error  string
}

// services are the gRPC services of the dialects.
var services = map[call.Dialect]string{
	call.Doc:    "selu.capability.Capability",
	call.Live:   "selu.capability.v1.Capability",
	call.Legacy: "selu.capability.v1.CapabilityService",
}

// Service is the gRPC service of the dialect.
func (c Client) Service() string { return services[c.Dialect] }

// Path is the gRPC path of a method of the service.
func (c Client) Path(method string) string { return "/" + c.Service() + "/" + method }

// Healthcheck asks for readiness. The messages of all dialects are alike: legacy has only the
// first field, under another name.
func (c Client) Healthcheck(ctx context.Context) (ready bool, message string, err error) {
	method := "Healthcheck"
	if c.Dialect == call.Legacy {
		method = "HealthCheck" // capital C
	}
	reply := new(docpb.HealthResponse)
	err = c.Conn.Invoke(ctx, c.Path(method), &docpb.HealthRequest{}, reply)
	return reply.GetReady(), reply.GetMessage(), err
}

// Request is a question as the dialect's message.
func (c Client) Request(q Question) proto.Message {
	var m proto.Message = &docpb.InvokeRequest{ToolName: q.Tool, ArgsJson: q.Args, SessionId: q.Session}
	if c.Dialect == call.Legacy {
		said := map[string]string{}
		for name, value := range q.Context {
			said[name] = value
		}
		if q.Session != "" {
			said["session_id"] = q.Session
		}
		m = &legacypb.InvokeRequest{ToolName: q.Tool, Parameters: string(q.Args), Context: said}
	}
	if len(q.Unknown) > 0 {
		m.ProtoReflect().SetUnknown(q.Unknown)
	}
	return m
}

// Invoke calls a tool.
func (c Client) Invoke(ctx context.Context, q Question) (Answer, error) {
	if c.Dialect == call.Legacy {
		reply := new(legacypb.InvokeResponse)
		err := c.Conn.Invoke(ctx, c.Path("Invoke"), c.Request(q), reply)
		return Answer{Result: []byte(reply.GetResult()), Failed: !reply.GetSuccess(), Error: reply.GetError()}, err
	}
	reply := new(docpb.InvokeResponse)
	err := c.Conn.Invoke(ctx, c.Path("Invoke"), c.Request(q), reply)
	return Answer{Result: reply.GetResultJson(), Failed: reply.GetError() != "", Error: reply.GetError()}, err
}

// Stream calls a tool and returns all chunks until the stream ends. The legacy dialect has no streams.
func (c Client) Stream(ctx context.Context, q Question) ([]*docpb.InvokeChunk, error) {
	return receive[docpb.InvokeChunk](ctx, c, "StreamInvoke", c.Request(q))
}

// Download returns all chunks of a file until the stream ends.
func (c Client) Download(ctx context.Context, id string) ([]*docpb.ArtifactChunk, error) {
	return receive[docpb.ArtifactChunk](ctx, c, "DownloadOutputArtifact",
		&docpb.DownloadOutputArtifactRequest{ArtifactId: id})
}

// Begin begins a call of any kind, which the caller goes on with.
func (c Client) Begin(ctx context.Context, method string) (grpc.ClientStream, error) {
	return c.Conn.NewStream(ctx, &grpc.StreamDesc{StreamName: method, ClientStreams: true, ServerStreams: true},
		c.Path(method))
}

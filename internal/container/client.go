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
	Context map[string]string // of the legacy dialect, besides session_id
	Unknown []byte            // unknown fields in wire format
}

// Answer is a tool's response with gRPC status OK.
type Answer struct {
	Result []byte
	Failed bool
	Error  string
}

// services has the gRPC services of the dialects.
var services = map[call.Dialect]string{
	call.Doc:    "selu.capability.Capability",
	call.Live:   "selu.capability.v1.Capability",
	call.Legacy: "selu.capability.v1.CapabilityService",
}

// Service returns the gRPC service of the dialect.
func (c Client) Service() string { return services[c.Dialect] }

// Path returns the gRPC path of a method of the service.
func (c Client) Path(method string) string { return "/" + c.Service() + "/" + method }

// Healthcheck calls the health method. The messages of all dialects are compatible: legacy has only the
// first field, with another name.
func (c Client) Healthcheck(ctx context.Context) (ready bool, message string, err error) {
	method := "Healthcheck"
	if c.Dialect == call.Legacy {
		method = "HealthCheck" // capital C
	}
	reply := new(docpb.HealthResponse)
	err = c.Conn.Invoke(ctx, c.Path(method), &docpb.HealthRequest{}, reply)
	return reply.GetReady(), reply.GetMessage(), err
}

// Request returns a question as the dialect's message.
func (c Client) Request(q Question) proto.Message {
	var m proto.Message = &docpb.InvokeRequest{ToolName: q.Tool, ArgsJson: q.Args, SessionId: q.Session}
	if c.Dialect == call.Legacy {
		fields := map[string]string{}
		for name, value := range q.Context {
			fields[name] = value
		}
		if q.Session != "" {
			fields["session_id"] = q.Session
		}
		m = &legacypb.InvokeRequest{ToolName: q.Tool, Parameters: string(q.Args), Context: fields}
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

// Begin starts a call of any kind; the caller continues it.
func (c Client) Begin(ctx context.Context, method string) (grpc.ClientStream, error) {
	return c.Conn.NewStream(ctx, &grpc.StreamDesc{StreamName: method, ClientStreams: true, ServerStreams: true},
		c.Path(method))
}

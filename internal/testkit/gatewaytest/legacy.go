package gatewaytest

import (
	"context"
	"encoding/json"
	"maps"

	"google.golang.org/grpc"

	docpb "github.com/capgate/capgate/proto/selu/capability"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// legacy serves a Capability in the legacy dialect.
type legacy struct {
	legacypb.UnimplementedCapabilityServiceServer
	c *Capability
}

func (l legacy) Invoke(ctx context.Context, in *legacypb.InvokeRequest) (*legacypb.InvokeResponse, error) {
	said := in.GetContext()
	req := &docpb.InvokeRequest{
		ToolName: in.GetToolName(), ArgsJson: []byte(in.GetParameters()),
		SessionId: said["session_id"], ThreadId: said["thread_id"], CapabilityId: said["capability_id"],
	}
	if err := l.c.saw(ctx, Seen{Request: req, Context: said}); err != nil {
		return nil, err
	}
	result, failure, err := l.c.run(ctx, req)
	if err != nil {
		return nil, err
	}
	out := &legacypb.InvokeResponse{Result: string(result), Success: failure == "", Error: failure}
	if failure == MuteError {
		out.Error = ""
	}
	return out, nil
}

func (l legacy) HealthCheck(context.Context, *legacypb.HealthCheckRequest) (*legacypb.HealthCheckResponse, error) {
	return &legacypb.HealthCheckResponse{Healthy: true}, nil
}

// legacyClient calls methods that the legacy dialect lacks, by the names that they would have there.
type legacyClient struct {
	legacypb.CapabilityServiceClient
	conn grpc.ClientConnInterface
}

// Invoke sends a configuration that is an object of strings as entries of the context.
func (c legacyClient) Invoke(ctx context.Context, req *docpb.InvokeRequest,
	opts ...grpc.CallOption) (*docpb.InvokeResponse, error) {
	said := map[string]string{}
	if len(req.GetConfigJson()) > 0 {
		if err := json.Unmarshal(req.GetConfigJson(), &said); err != nil {
			return nil, err
		}
	}
	maps.Copy(said, map[string]string{"session_id": req.GetSessionId(), "thread_id": req.GetThreadId(),
		"capability_id": req.GetCapabilityId()})
	maps.DeleteFunc(said, func(_, value string) bool { return value == "" })
	resp, err := c.CapabilityServiceClient.Invoke(ctx,
		&legacypb.InvokeRequest{ToolName: req.GetToolName(), Parameters: string(req.GetArgsJson()), Context: said},
		opts...)
	if err != nil {
		return nil, err
	}
	out := &docpb.InvokeResponse{ResultJson: []byte(resp.GetResult()), Error: resp.GetError()}
	switch {
	case resp.GetSuccess() && out.Error != "":
		out.Error = "a success with the error " + out.Error // not allowed
	case !resp.GetSuccess() && out.Error == "":
		out.Error = MuteError
	}
	return out, nil
}

func (c legacyClient) StreamInvoke(ctx context.Context, req *docpb.InvokeRequest,
	opts ...grpc.CallOption) ([]*docpb.InvokeChunk, error) {
	stream, err := docpb.NewCapabilityClient(misnamed{c.conn}).StreamInvoke(ctx, req, opts...)
	return collect(stream, err)
}

func (c legacyClient) Healthcheck(ctx context.Context, opts ...grpc.CallOption) (bool, string, error) {
	resp, err := c.HealthCheck(ctx, &legacypb.HealthCheckRequest{}, opts...)
	return resp.GetHealthy(), "", err
}

func (c legacyClient) Upload(ctx context.Context, f File, opts ...grpc.CallOption) (Uploaded, error) {
	return docClient{docpb.NewCapabilityClient(misnamed{c.conn})}.Upload(ctx, f, opts...)
}

func (c legacyClient) Download(ctx context.Context, id string, opts ...grpc.CallOption) (File, error) {
	return docClient{docpb.NewCapabilityClient(misnamed{c.conn})}.Download(ctx, id, opts...)
}

// misnamed calls an unknown method of the legacy service.
type misnamed struct{ grpc.ClientConnInterface }

func (m misnamed) NewStream(ctx context.Context, desc *grpc.StreamDesc, _ string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return m.ClientConnInterface.NewStream(ctx, desc, "/selu.capability.v1.CapabilityService/"+desc.StreamName, opts...)
}

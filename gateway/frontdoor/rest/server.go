package rest

import (
	"bytes"
	"cmp"
	"context"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// server is capgate.v1.Gateway for requests that the decoder made: args and config are
// in their bytes fields. It is called in-process only.
type server struct {
	capgatepb.UnimplementedGatewayServer
	capabilities docpb.CapabilityClient
}

// MaxReply is the largest answer taken from a capability, in bytes.
const MaxReply = 16 << 20

// Invoke makes one call of a tool, in the doc dialect. An error's status is the gateway's
// or the capability's, unchanged.
func (s *server) Invoke(ctx context.Context, req *capgatepb.InvokeRequest) (*capgatepb.InvokeResponse, error) {
	return s.call(ctx, invocation(req))
}

// CallTool makes one call of a tool whose arguments are the body, and answers with nothing but its result.
func (s *server) CallTool(ctx context.Context, req *capgatepb.CallToolRequest) (*httpbody.HttpBody, error) {
	made, _ := metadata.FromIncomingContext(ctx)
	resp, err := s.call(ctx, toolCall(req, bodyOf(ctx).args, first(made.Get(sessionID)), first(made.Get(threadID))))
	if err != nil {
		return nil, err
	}
	return plain(resp)
}

func (s *server) call(ctx context.Context, req *docpb.InvokeRequest) (*capgatepb.InvokeResponse, error) {
	made, _ := metadata.FromIncomingContext(ctx)
	var trailer metadata.MD
	reply, err := s.capabilities.Invoke(withMetadata(ctx, made), req, grpc.MaxCallRecvMsgSize(MaxReply),
		grpc.Trailer(&trailer))
	b := bodyOf(ctx)
	b.replayed = len(made.Get(keyedMetadata)) > 0 && len(trailer.Get(replayed)) > 0
	if err != nil {
		return nil, err
	}
	resp := &capgatepb.InvokeResponse{ResultJson: reply.GetResultJson(), Error: reply.GetError()}
	if b.outcome = "success"; resp.GetError() != "" {
		b.outcome = "tool_error"
		if b.asHTTP {
			return nil, toolFailure{resp}
		}
	}
	return resp, nil
}

// GetHealth asks the gateway itself, which knows.
func (s *server) GetHealth(ctx context.Context, req *capgatepb.GetHealthRequest) (*capgatepb.GetHealthResponse, error) {
	made, _ := metadata.FromIncomingContext(ctx)
	reply, err := healthOf(withMetadata(ctx, made), s.capabilities, req.GetCapabilityId())
	if err != nil {
		return nil, err
	}
	return &capgatepb.GetHealthResponse{Ready: reply.GetReady(), Message: reply.GetMessage()}, nil
}

// healthOf asks for the health of the capability that a path names.
func healthOf(ctx context.Context, capabilities docpb.CapabilityClient, capability string) (*docpb.HealthResponse,
	error) {
	if !printable(capability) { // no such capability; metadata cannot carry the name
		return nil, noSuchPath()
	}
	return capabilities.Healthcheck(metadata.AppendToOutgoingContext(ctx, "x-capability-id", capability),
		&docpb.HealthRequest{})
}

// invocation is a call as capabilities know it.
func invocation(req *capgatepb.InvokeRequest) *docpb.InvokeRequest {
	return &docpb.InvokeRequest{
		ToolName:     req.GetToolName(),
		ArgsJson:     req.GetArgsJson(),
		ConfigJson:   req.GetConfigJson(),
		SessionId:    req.GetSessionId(),
		CapabilityId: req.GetCapabilityId(),
		ThreadId:     req.GetThreadId(),
	}
}

// toolCall returns a call with the arguments args; headers set session and thread if the request does not.
func toolCall(req *capgatepb.CallToolRequest, args []byte, session, thread string) *docpb.InvokeRequest {
	return &docpb.InvokeRequest{
		ToolName:     req.GetToolName(),
		ArgsJson:     args,
		ConfigJson:   []byte("{}"),
		SessionId:    cmp.Or(req.GetSessionId(), session),
		CapabilityId: req.GetCapabilityId(),
		ThreadId:     cmp.Or(req.GetThreadId(), thread),
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// plain is a result as the body of an answer. A tool's error takes its place.
func plain(resp *capgatepb.InvokeResponse) (*httpbody.HttpBody, error) {
	if resp.GetError() != "" {
		text, err := encodeInvoke(resp)
		return &httpbody.HttpBody{ContentType: "application/json", Data: text}, err
	}
	return &httpbody.HttpBody{ContentType: typeOf(resp.GetResultJson()), Data: resp.GetResultJson()}, nil
}

// typeOf is the media type of a result.
func typeOf(result []byte) string {
	switch {
	case isText(result):
		return "application/json"
	case utf8.Valid(result) && bytes.IndexByte(result, 0) < 0:
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

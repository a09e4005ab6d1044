package dialect

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// capabilityHeader names the capability of a call. The gateway sets it for all calls to this server.
const capabilityHeader = "x-capability-id"

// noReason is the error of a legacy failure without a text. In the other dialects, an empty error means success.
const noReason = "the tool failed without an error message"

// toLegacy calls backends with the legacy dialect.
type toLegacy struct {
	client legacypb.CapabilityServiceClient
	refuse Refuse
}

// invocation is an InvokeRequest in the doc or live dialect.
type invocation interface {
	GetToolName() string
	GetArgsJson() []byte
	GetConfigJson() []byte
	GetSessionId() string
	GetCapabilityId() string
	GetThreadId() string
}

// invoke makes a call. A tool's own failure is not an error, but a text that is never empty.
func (l *toLegacy) invoke(ctx context.Context, in invocation) (result []byte, failure string, err error) {
	if !utf8.Valid(in.GetArgsJson()) || !utf8.Valid(in.GetConfigJson()) {
		return nil, "", l.refuse(ctx, refusedBinary)
	}
	resp, err := carry(ctx, l.refuse, legacyRequest(in), l.client.Invoke)
	if err != nil {
		return nil, "", err
	}
	if resp.GetSuccess() {
		return []byte(resp.GetResult()), "", nil // the error is only valid if success is false
	}
	if failure = resp.GetError(); failure == "" {
		failure = noReason
	}
	return []byte(resp.GetResult()), failure, nil
}

// legacyRequest translates an invocation to the legacy dialect. Empty arguments become an empty object, because
// parameters are always JSON there. The configuration becomes an entry of the context, unless it is empty.
func legacyRequest(in invocation) *legacypb.InvokeRequest {
	out := &legacypb.InvokeRequest{ToolName: in.GetToolName(), Parameters: string(in.GetArgsJson()),
		Context: map[string]string{}}
	if out.Parameters == "" {
		out.Parameters = "{}"
	}
	for name, value := range map[string]string{
		contextSession: in.GetSessionId(), contextThread: in.GetThreadId(), contextCapability: in.GetCapabilityId(),
	} {
		if value != "" {
			out.Context[name] = value
		}
	}
	if config := bytes.TrimSpace(in.GetConfigJson()); len(config) > 0 && string(config) != "{}" {
		out.Context[contextConfig] = string(in.GetConfigJson())
	}
	return out
}

// legacySide serves clients with the legacy dialect through backends of the others.
type legacySide struct {
	legacypb.UnimplementedCapabilityServiceServer
	doc    docpb.CapabilityClient
	refuse Refuse
}

func (s *legacySide) Invoke(ctx context.Context, in *legacypb.InvokeRequest) (*legacypb.InvokeResponse, error) {
	req, err := requestOfLegacy(ctx, in)
	if err != nil {
		return nil, err
	}
	resp, err := carry(ctx, s.refuse, req, s.doc.Invoke)
	if err != nil {
		return nil, err
	}
	out := &legacypb.InvokeResponse{Success: resp.GetError() == "", Error: resp.GetError()}
	switch {
	case utf8.Valid(resp.GetResultJson()):
		out.Result = string(resp.GetResultJson())
	case out.Success:
		return nil, s.refuse(ctx, refusedBinaryResult)
	}
	return out, nil
}

// requestOfLegacy translates a legacy request to the doc dialect. Entries of the context without a field there become
// an object in the configuration, which is otherwise empty. The user is only for the gateway, and not sent to
// backends.
func requestOfLegacy(ctx context.Context, in *legacypb.InvokeRequest) (*docpb.InvokeRequest, error) {
	said := in.GetContext()
	out := &docpb.InvokeRequest{
		ToolName: in.GetToolName(), ArgsJson: []byte(in.GetParameters()),
		SessionId: said[contextSession], ThreadId: said[contextThread], CapabilityId: said[contextCapability],
	}
	if md, _ := metadata.FromIncomingContext(ctx); out.CapabilityId == "" && len(md.Get(capabilityHeader)) > 0 {
		out.CapabilityId = md.Get(capabilityHeader)[0]
	}
	rest := maps.Clone(said)
	for _, name := range []string{contextSession, contextThread, contextUser, contextCapability} {
		delete(rest, name)
	}
	if rest == nil {
		rest = map[string]string{}
	}
	var err error
	out.ConfigJson, err = json.Marshal(map[string]map[string]string{"context": rest})
	return out, err
}

// carry makes the translated call, with all properties of the original except its message.
func carry[Req, Resp any](ctx context.Context, refuse Refuse, req *Req,
	far func(context.Context, *Req, ...grpc.CallOption) (*Resp, error)) (*Resp, error) {
	out, opts := Outgoing(ctx)
	var header, trailer metadata.MD
	resp, err := far(out, req, append(opts, grpc.MaxCallRecvMsgSize(maxMessage), grpc.Header(&header),
		grpc.Trailer(&trailer))...)
	if refusal := unread(err, header); refusal != nil {
		err = refuse(ctx, refusal)
	}
	if headErr := grpc.SetHeader(ctx, Custom(header)); err == nil {
		err = headErr
	}
	if tailErr := grpc.SetTrailer(ctx, Custom(trailer)); err == nil {
		err = tailErr
	}
	return resp, err
}

var (
	refusedBinary = &call.Refusal{Kind: call.InvalidArgument, Reason: "DIALECT_TEXT_ONLY",
		Message: "the capability's backend uses the legacy dialect, whose arguments and configuration must be " +
			"UTF-8, and these are not"}
	refusedBinaryResult = &call.Refusal{Kind: call.DataLoss, Reason: "DIALECT_TEXT_ONLY", Progress: call.Sent,
		Message: "the tool has run, but its result is not UTF-8, which the caller's legacy dialect requires: call " +
			"it in another dialect"}
)

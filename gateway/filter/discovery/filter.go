package discovery

import (
	"context"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// Config configures a Filter. All fields but Lists and Tools are required.
type Config struct {
	// Lists reports, from memory, whether a tool is the one that lists the tools of a capability. If Lists is nil, all
	// calls pass.
	Lists func(capability, tool string) bool
	// Tools returns the response with the tools that a caller may use. The error is a *call.Refusal, or that of ctx.
	Tools      func(ctx context.Context, caller tenant.Identity, capability string) ([]byte, error)
	Queue      filter.Queue
	MaxMessage int                                        // bytes
	Refuse     func(context.Context, *call.Refusal) error // returns the error that refuses a call
}

// Filter answers calls of tools that list tools.
type Filter struct {
	cfg    Config
	server *localgrpc.Server
}

// New returns a Filter.
func New(cfg Config) *Filter {
	f := &Filter{cfg: cfg, server: &localgrpc.Server{Name: "discovery", MaxMessage: cfg.MaxMessage}}
	docpb.RegisterCapabilityServer(f.server, &docSide{f: f})
	livepb.RegisterCapabilityServer(f.server, &liveSide{f: f})
	legacypb.RegisterCapabilityServiceServer(f.server, &legacySide{f: f})
	return f
}

// Admit implements filter.Filter.
func (f *Filter) Admit(c *filter.Call, _ *filter.Stateless) filter.Step {
	if f.cfg.Lists == nil || !f.cfg.Lists(c.Info.Capability, c.Info.Tool) {
		return filter.Continue
	}
	return c.ServeBy(f.server, nil)
}

// Done implements filter.Filter.
func (*Filter) Done(*filter.Call, *filter.Stateless, *filter.Result) {}

// tools returns the response for the call of ctx.
func (f *Filter) tools(ctx context.Context) ([]byte, error) {
	v := filter.ServedOf(ctx)
	if err := f.cfg.Queue.Wait(ctx, v.Call.Tenant, ""); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, f.cfg.Refuse(ctx, filter.TooMany(v.Caller))
	}
	text, err := f.cfg.Tools(ctx, v.Caller, v.Call.Capability)
	if refusal, ok := err.(*call.Refusal); ok { //nolint:errorlint // Tools returns it as it is
		return nil, f.cfg.Refuse(ctx, refusal)
	}
	if err == nil {
		v.Outcome.Store(int32(telemetry.Succeeded))
	}
	return text, err
}

type docSide struct {
	docpb.UnimplementedCapabilityServer
	f *Filter
}

func (s *docSide) Invoke(ctx context.Context, _ *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	text, err := s.f.tools(ctx)
	if err != nil {
		return nil, err
	}
	return &docpb.InvokeResponse{ResultJson: text}, nil
}

func (s *docSide) StreamInvoke(_ *docpb.InvokeRequest, stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	text, err := s.f.tools(stream.Context())
	if err != nil {
		return err
	}
	return stream.Send(&docpb.InvokeChunk{Data: text, Done: true})
}

type liveSide struct {
	livepb.UnimplementedCapabilityServer
	f *Filter
}

func (s *liveSide) Invoke(ctx context.Context, _ *livepb.InvokeRequest) (*livepb.InvokeResponse, error) {
	text, err := s.f.tools(ctx)
	if err != nil {
		return nil, err
	}
	return &livepb.InvokeResponse{ResultJson: text}, nil
}

func (s *liveSide) StreamInvoke(_ *livepb.InvokeRequest, stream grpc.ServerStreamingServer[livepb.InvokeChunk]) error {
	text, err := s.f.tools(stream.Context())
	if err != nil {
		return err
	}
	return stream.Send(&livepb.InvokeChunk{Data: text, Done: true})
}

type legacySide struct {
	legacypb.UnimplementedCapabilityServiceServer
	f *Filter
}

func (s *legacySide) Invoke(ctx context.Context, _ *legacypb.InvokeRequest) (*legacypb.InvokeResponse, error) {
	text, err := s.f.tools(ctx)
	if err != nil {
		return nil, err
	}
	return &legacypb.InvokeResponse{Result: string(text), Success: true}, nil
}

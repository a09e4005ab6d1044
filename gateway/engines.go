package gateway

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/engine"
	enginefilter "github.com/capgate/capgate/gateway/engine/filter"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/router"
)

// guard is the guard of OpenParallax engines as an upstream like any other: a gRPC server inside the
// process. A guarded call goes there when its engine is chosen, and comes back as the translator's do.
type guard struct {
	*engine.Guard
	server *localgrpc.Server
}

func newGuard(cfg *Config, r *relay.Relay, c *crossings, inside grpc.ClientConnInterface) *guard {
	asBytes := grpc.ForceCodec(untouched{})
	g := engine.New(engine.Config{
		Shared: cfg.Engines,
		Conn:   inside,
		Passage: func(ctx context.Context) (*engine.Passage, bool) {
			return c.passage(ctx, cfg.Router)
		},
		Onward: func(ctx context.Context) (context.Context, []grpc.CallOption) {
			ctx, opts := dialect.Outgoing(ctx)
			return ctx, append(opts, asBytes)
		},
		Beside: func(ctx context.Context, fleet, backend string) (context.Context, []grpc.CallOption) {
			md := metadata.Pairs(filter.CapabilityHeader, fleet, ticketHeader, c.ours, enginefilter.BackendHeader, backend)
			return metadata.NewOutgoingContext(ctx, md), []grpc.CallOption{asBytes}
		},
		Refuse: c.refuse,
		Log:    cfg.Log,
	})
	return &guard{Guard: g, server: bytesServer(g.Serve)}
}

// close is for after the relay has ended.
func (g *guard) close() {
	g.Close()
}

// passage is the call that ctx is of.
func (c *crossings) passage(ctx context.Context, r *router.Router) (*engine.Passage, bool) {
	md, _ := metadata.FromIncomingContext(ctx)
	x, open := c.lookIn(ctx)
	if !open || x.target == nil {
		return nil, false
	}
	fleet := r.Table().Fleet(x.call.Capability)
	if fleet == nil {
		return nil, false
	}
	return &engine.Passage{
		Tenant: x.call.Tenant, User: x.call.User, Agent: x.call.Agent, Key: x.call.Key, RequestID: strings.Join(md.Get(requestIDHeader), ""),
		Many: x.caller.Settings != nil, Fleet: x.call.Capability, Backend: x.target.Addr, Session: x.call.Session, Settings: engine.SettingsOf(fleet),
		Failed: func(failed bool) {
			o := telemetry.Succeeded
			if failed {
				o = telemetry.ToolError
			}
			x.ends.outcome.Store(int32(o))
		},
	}, true
}

// guarded sends a call of an engine that is guarded to the guard.
type guarded struct {
	h    *handler
	back *list // that a guarded call comes back by
}

// Admit implements filter.Filter.
func (f guarded) Admit(_ *filter.Call, t *callState) filter.Step {
	if !enginefilter.Guarded(&t.Call) {
		return filter.Continue
	}
	f.h.leave(t, f.back)
	t.Stream.TapResponse(t)
	return t.Serve(f.h.guard.server.Serve)
}

// Done implements filter.Filter.
func (f guarded) Done(_ *filter.Call, t *callState, r *filter.Result) { f.h.comeHome(t, r) }

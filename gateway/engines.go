package gateway

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/engine"
	enginefilter "github.com/capgate/capgate/gateway/engine/filter"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// guard is the guard of OpenParallax engines. It serves guarded calls when their engine is picked, and continues them.
type guard struct {
	*engine.Guard
	server *localgrpc.Server
}

func newGuard(cfg *Config, onward, own grpc.ClientConnInterface) *guard {
	asBytes := grpc.ForceCodec(untouched{})
	g := engine.New(engine.Config{
		Shared: cfg.Engines,
		Call:   guardedCall,
		Conn:   onward,
		Continue: func(ctx context.Context) (context.Context, []grpc.CallOption) {
			ctx, opts := dialect.Outgoing(ctx)
			md, _ := metadata.FromOutgoingContext(ctx)
			md.Delete(engine.ModesHeader)
			return ctx, append(opts, asBytes)
		},
		Internal: own,
		Subrequest: func(ctx context.Context, fleet, backend string) (context.Context, []grpc.CallOption) {
			ctx = context.WithValue(ctx, ownCallKey{}, &ownCall{backend: backend})
			return metadata.NewOutgoingContext(ctx, metadata.Pairs(filter.CapabilityHeader, fleet)), []grpc.CallOption{asBytes}
		},
		Detach: localgrpc.Detach,
		Refuse: refuse,
		Log:    cfg.Log,
	})
	return &guard{Guard: g, server: bytesServer(g.Serve)}
}

// guardedCall returns the call of ctx, for the guard.
func guardedCall(ctx context.Context) *engine.Call {
	v := servedOf(ctx)
	return &engine.Call{
		Tenant: v.call.Tenant, User: v.call.User, Agent: v.call.Agent, Key: v.call.Key, RequestID: v.requestID,
		MultiTenant: v.caller.Settings != nil, Fleet: v.call.Capability, Backend: v.endpoint.Addr, Session: v.call.Session,
		Settings: engine.SettingsOf(v.fleet), MaxDuration: v.fleet.Deadlines.For(call.StreamInvoke, 0, false),
		Failed: func(failed bool) {
			o := telemetry.Succeeded
			if failed {
				o = telemetry.ToolError
			}
			v.outcome.Store(int32(o))
		},
	}
}

// guarded has calls of an engine that are guarded served by the guard.
type guarded struct{ h *handler }

// Admit implements filter.Filter.
func (f guarded) Admit(c *filter.Call, t *callState) filter.Step {
	if !enginefilter.Guarded(c) {
		return filter.Continue
	}
	return t.serveBy(f.h.guard.server)
}

// Done implements filter.Filter.
func (guarded) Done(*filter.Call, *callState, *filter.Result) {}

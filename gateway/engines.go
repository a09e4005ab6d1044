package gateway

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// newGuard returns the guard of OpenParallax engines.
func newGuard(cfg *Config, own grpc.ClientConnInterface) *engine.Guard {
	asBytes := grpc.ForceCodec(localgrpc.Bytes{})
	return engine.New(engine.Config{
		Shared: cfg.Routing.Engines,
		Call:   guardedCall,
		Conn:   localgrpc.Continue(maxMessage),
		Continue: func(ctx context.Context) (context.Context, []grpc.CallOption) {
			ctx, opts := dialect.Outgoing(ctx)
			md, _ := metadata.FromOutgoingContext(ctx)
			md.Delete(engine.ModesHeader)
			return ctx, append(opts, asBytes)
		},
		Internal: own,
		Subrequest: func(ctx context.Context, fleet, backend string) (context.Context, []grpc.CallOption) {
			ctx = context.WithValue(ctx, internalCallKey{}, &internalCall{backend: backend})
			return metadata.NewOutgoingContext(ctx, metadata.Pairs(filter.CapabilityHeader, fleet)),
				[]grpc.CallOption{asBytes}
		},
		Detach: localgrpc.Detach,
		Refuse: refuse,
		Log:    cfg.Log,
	})
}

// guardedCall returns the call in ctx for the guard.
func guardedCall(ctx context.Context) *engine.Call {
	v := filter.ServedOf(ctx)
	return &engine.Call{
		Tenant: v.Call.Tenant, User: v.Call.User, Agent: v.Call.Agent, Key: v.Call.Key, RequestID: v.RequestID,
		MultiTenant: v.Caller.Settings != nil, Fleet: v.Call.Capability, Backend: v.Endpoint.Addr,
		Session: v.Call.Session, Settings: engine.SettingsOf(v.Fleet),
		MaxDuration: v.Fleet.Deadlines.For(call.StreamInvoke, 0, false), Opened: v.Call.Opened, Sent: func() {
			v.SetProgress(call.Sent)
		},
		Failed: func(failed bool) {
			o := telemetry.Succeeded
			if failed {
				o = telemetry.ToolError
			}
			v.Outcome.Store(int32(o))
		},
	}
}

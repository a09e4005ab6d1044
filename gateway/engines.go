package gateway

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictproto"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/router"
)

// backendHeader is where a call of the gateway's own goes. It is believed of nobody else.
const backendHeader = "x-capgate-backend"

// guard is the guard of OpenParallax engines as an upstream like any other: a gRPC server inside the
// process. A guarded call goes there when its engine is chosen, and comes back as the translator's do.
type guard struct {
	*engine.Guard
	server *local
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
			return metadata.NewOutgoingContext(ctx, metadata.Pairs(capabilityHeader, fleet, ticketHeader, c.ours, backendHeader, backend)), []grpc.CallOption{asBytes}
		},
		Refuse: c.refuse,
		Log:    cfg.Log,
	})
	return &guard{Guard: g, server: serveLocal(r, "engines", bytesServer(g.Serve))}
}

// close is for after the relay has ended.
func (g *guard) close() {
	g.server.close()
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

// notEngine rejects calls of a fleet of engines that engines have no method for.
func (t *callState) notEngine() *call.Refusal {
	if engine.SettingsOf(t.Fleet) != nil {
		return refusedNoEngine
	}
	return nil
}

// ofEngine rejects calls of an engine's method whose fleet is of none, or does not take it.
func (t *callState) ofEngine() *call.Refusal {
	switch settings := engine.SettingsOf(t.Fleet); {
	case settings == nil:
		return refusedNotEngine
	case t.engine.Ends && !settings.Shutdown:
		return refusedShutdown
	}
	return nil
}

// backFromGuard is ofEngine for a call that the guard has let pass.
func (t *callState) backFromGuard() *call.Refusal {
	if engine.SettingsOf(t.Fleet) == nil {
		return refusedNotEngine
	}
	t.Stream.DropHeader(engine.ModesHeader)
	return nil
}

// sentTo finds the engine that a call of the gateway's own is for.
func (t *callState) sentTo() *call.Refusal {
	if engine.SettingsOf(t.Fleet) == nil {
		return refusedNotEngine
	}
	addr, ok := t.Stream.Header(backendHeader)
	if !ok {
		return nil
	}
	for _, b := range t.Fleet.Backends {
		if b.Addr == addr {
			t.Attempt.Directed = b
			t.Stream.DropHeader(backendHeader)
			return nil
		}
	}
	return filter.Unreachable(t.Fleet)
}

// peekSession reads the session out of the first message of an engine's method, where that has one.
type peekSession struct{ h *handler }

// Admit implements filter.Filter.
func (f peekSession) Admit(_ *filter.Call, t *callState) filter.Step {
	if t.engine.Session == 0 {
		return filter.Continue
	}
	read := func(_ *filter.Call, msg []byte) (filter.Peeked, *call.Refusal) { return readEngine(t, msg) }
	return peek{f.h, read}.Admit(&t.Call, &t.peek)
}

// Done implements filter.Filter.
func (peekSession) Done(*filter.Call, *callState, *filter.Result) {}

// readEngine takes out of the first message of an engine's method what it is routed by.
func readEngine(t *callState, msg []byte) (filter.Peeked, *call.Refusal) {
	id, err := t.engine.ReadSession(msg)
	if err != nil {
		return filter.Peeked{}, strictproto.Refuse(err, refusedEngineMessage)
	}
	t.Info.Session = t.Keep(filter.View(id))
	return filter.Peeked{Read: true}, nil
}

// readOne rejects a call of which it is not known to which engine of several it should go.
func (t *callState) readOne() *call.Refusal {
	if t.engine.Anyone || t.Info.Session != "" || len(t.Fleet.Backends) < 2 {
		return nil
	}
	return refusedManyEngines
}

var (
	refusedNotEngine = &call.Refusal{Kind: call.NotFound, Reason: "ENGINE_UNKNOWN",
		Message: "the fleet is not of OpenParallax engines; protocol: openparallax in its configuration says that one is"}
	refusedNoEngine = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
		Message: "the fleet is of OpenParallax engines, which have no method of this name"}
	refusedShutdown = &call.Refusal{Kind: call.PermissionDenied, Reason: "ENGINE_SHUTDOWN_OFF",
		Message: "nobody may shut this engine down by way of the gateway, unless its fleet is configured so"}
	refusedEngineMessage = &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
		Message: "the request is not a well-formed message of its method"}
	refusedManyEngines = &call.Refusal{Kind: call.FailedPrecondition, Reason: "ENGINE_AMBIGUOUS",
		Message: "the fleet has several engines, and the call names no session by which one could be told: name one, also by metadata x-session-id, or call an engine that is a fleet of its own"}
)

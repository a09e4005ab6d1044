package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy/approvals"
)

// Sessions stores the owners of engines' sessions, for all replicas.
type Sessions interface {
	// Claim assigns a session to a tenant unless it has an owner. It returns the owner, and whether the session
	// had none before.
	Claim(ctx context.Context, engine, session, tenant string) (owner string, claimed bool, err error)
	// Owners returns the owners of sessions; empty means none.
	Owners(ctx context.Context, engine string, sessions []string) ([]string, error)
}

// Approvals stores the approvals of all replicas.
type Approvals interface {
	Create(ctx context.Context, r *approvals.Request) (approvals.Approval, bool, *call.Refusal)
	Wait(ctx context.Context, tenant, id string) (approvals.Approval, error)
	Withdraw(ctx context.Context, tenant, id string) error
	Redeem(ctx context.Context, id string, r *approvals.Request) (approvals.Redemption, *call.Refusal)
	Approve(ctx context.Context, tenant, id string, answer approvals.Answer) (approvals.Approval, error)
	Deny(ctx context.Context, tenant, id string, answer approvals.Answer) (approvals.Approval, error)
}

// Questions maps engines' questions to approvals, for all replicas.
type Questions interface {
	// Bind stores the approval of a question for a limited time.
	Bind(ctx context.Context, tenant, engine, question, approval string, lasts time.Duration) error
	// Bound returns the approval of a tenant's question; empty means none.
	Bound(ctx context.Context, tenant, engine, question string) (approval string, err error)
}

// Shared is the state of engines that replicas share.
type Shared struct {
	Turns     *turns.Manager
	Sessions  Sessions
	Approvals Approvals
	Questions Questions
	Meters    func(fleet, tenant string) Meter // returns the meter of a fleet and a tenant; nil means no metrics
}

// Call is a guarded call.
type Call struct {
	Tenant, User, Agent, Key, RequestID string

	MultiTenant bool   // tenants must not see each other's sessions
	Fleet       string // capability id
	Backend     string // address of the picked engine
	Session     string // empty means none
	Opened      bool   // the gateway created the session for this call, so no engine has it
	Settings    *Settings
	MaxDuration time.Duration     // for a message, independently of its caller's deadline
	Failed      func(failed bool) // reports the outcome of a response with status OK
	Sent        func()            // sets the call.Progress when the guard starts to carry out the call

	meter Meter
}

// engine returns the name of the call's engine for turns and leases.
func (p *Call) engine() string { return p.Fleet + " " + p.Backend }

// Config configures a Guard. All fields are required. The options of calls must have a codec that passes *[]byte
// unchanged.
type Config struct {
	Shared

	// Conn continues the call of a context, once.
	Conn grpc.ClientConnInterface
	// Continue returns the context and options for calls over Conn.
	Continue func(context.Context) (context.Context, []grpc.CallOption)
	// Internal makes the Guard's own calls.
	Internal grpc.ClientConnInterface
	// Subrequest returns the context and options for calls over Internal.
	Subrequest func(ctx context.Context, fleet, backend string) (context.Context, []grpc.CallOption)
	Call       func(context.Context) *Call
	// Detach runs a function that may outlive the call of a context.
	Detach func(context.Context, func(context.Context)) error
	Refuse func(context.Context, *call.Refusal) error // returns the error for the caller
	Log    *slog.Logger
}

// Guard serves the guarded methods. Close must be called to end it.
type Guard struct {
	cfg     Config
	alive   context.Context // context of work that may outlive its caller
	end     context.CancelFunc
	running sync.WaitGroup
}

// New returns a Guard.
func New(cfg Config) *Guard {
	g := &Guard{cfg: cfg}
	g.alive, g.end = context.WithCancel(context.Background())
	return g
}

// Close ends work that outlives its callers, and waits for it. It must be called after the last call.
func (g *Guard) Close() {
	g.end()
	g.running.Wait()
}

// Serve serves a call. It is a grpc.StreamHandler for a server with a codec that passes *[]byte unchanged.
func (g *Guard) Serve(_ any, s grpc.ServerStream) error {
	ctx := s.Context()
	p := g.cfg.Call(ctx)
	path, named := grpc.MethodFromServerStream(s)
	if !named || p.Settings == nil {
		return g.cfg.Refuse(ctx, refusedGone)
	}
	p.meter = g.meter(p)
	if g.cfg.Turns == nil {
		return g.cfg.Refuse(ctx, refusedOff)
	}
	if path == agents+"RunSession" {
		return g.agent(s, p, path)
	}
	var msg []byte
	if err := s.RecvMsg(&msg); err != nil {
		return err
	}
	answer, err := []byte(nil), error(nil)
	switch path {
	case clients + "SendMessage":
		return g.message(s, p, path, msg)
	case clients + "ListSessions":
		answer, err = g.sessions(ctx, p, path, msg)
	case clients + "GetHistory":
		answer, err = g.history(ctx, p, path, msg)
	case clients + "ResolveApproval":
		answer, err = g.resolve(ctx, p, path, msg)
	default:
		return g.cfg.Refuse(ctx, refusedGone)
	}
	var refusal *call.Refusal
	if errors.As(err, &refusal) {
		return g.cfg.Refuse(ctx, refusal)
	}
	if err != nil {
		return err
	}
	return s.SendMsg(&answer)
}

// numberingOf returns the client's numbering of modes.
func numberingOf(ctx context.Context, p *Call) (Numbering, *call.Refusal) {
	md, _ := metadata.FromIncomingContext(ctx)
	switch said := md.Get(ModesHeader); len(said) {
	case 0:
		return p.Settings.Clients, nil
	case 1:
		if n, ok := ParseNumbering(said[0]); ok {
			return n, nil
		}
	}
	return 0, refusedNumbering
}

var (
	refusedGone = &call.Refusal{Kind: call.Unavailable, Reason: "SERVICE_UNAVAILABLE",
		Message: "the gateway is shutting down"}
	refusedOff = &call.Refusal{Kind: call.FailedPrecondition, Reason: "ENGINE_OFF",
		Message: "this gateway guards no engines"}
	refusedNumbering = &call.Refusal{Kind: call.InvalidArgument, Reason: "SESSION_MODE_INVALID",
		Message: "the metadata x-session-modes must occur at most once, and be source or seed"}
	refusedMode = &call.Refusal{Kind: call.InvalidArgument, Reason: "SESSION_MODE_INVALID",
		Message: "mode is not a SessionMode in the client's numbering"}
	refusedMalformed = &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
		Message: "the request is not a well-formed message of its method"}
	refusedAnswer = &call.Refusal{Kind: call.DataLoss, Reason: "ENGINE_ANSWER_MALFORMED", Progress: call.Sent,
		Message: "the engine's answer is not a well-formed message of its method"}
	refusedUnavailable = &call.Refusal{Kind: call.Unavailable, Reason: "ENGINE_STATE_UNAVAILABLE",
		RetryAfter: time.Second,
		Message:    "the shared state of this engine is unavailable; nothing was sent to the engine"}
	refusedSession = &call.Refusal{Kind: call.NotFound, Reason: "ENGINE_SESSION_UNKNOWN",
		Message: "the session does not exist"}
)

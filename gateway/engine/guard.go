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

// Sessions knows whose sessions of engines are, for all replicas.
type Sessions interface {
	// Claim gives a session to a tenant unless it is somebody's, and answers whose it is, and whether
	// it was nobody's before.
	Claim(ctx context.Context, engine, session, tenant string) (owner string, claimed bool, err error)
	// Owners are whose sessions are, "" for nobody's.
	Owners(ctx context.Context, engine string, sessions []string) ([]string, error)
}

// Approvals are where people are asked, for all replicas.
type Approvals interface {
	Create(ctx context.Context, r *approvals.Request) (approvals.Approval, bool, *call.Refusal)
	Wait(ctx context.Context, tenant, id string) (approvals.Approval, error)
	Redeem(ctx context.Context, id string, r *approvals.Request) (approvals.Redemption, *call.Refusal)
	Approve(ctx context.Context, tenant, id string, answer approvals.Answer) (approvals.Approval, error)
	Deny(ctx context.Context, tenant, id string, answer approvals.Answer) (approvals.Approval, error)
}

// Questions know which approval an engine's own is, for all replicas.
type Questions interface {
	// Bind remembers it for a time.
	Bind(ctx context.Context, tenant, engine, question, approval string, lasts time.Duration) error
	// Bound answers with it; "" where there is none of that tenant's.
	Bound(ctx context.Context, tenant, engine, question string) (approval string, err error)
}

// Shared is what replicas share of engines.
type Shared struct {
	Turns     *turns.Keeper
	Sessions  Sessions
	Approvals Approvals
	Questions Questions
	Meters    func(fleet, tenant string) Meter // what counts for a fleet and a tenant; nil: nothing
}

// Passage is a call that came to the Guard.
type Passage struct {
	Tenant, User, Agent, Key, RequestID string

	Many     bool   // there are tenants who must not see each other's sessions
	Fleet    string // capability id
	Backend  string // address of the engine that was chosen
	Session  string // "" where it names none
	Settings *Settings
	Longest  time.Duration     // that a message may take, whatever its caller's deadline
	Failed   func(failed bool) // tells what an answer said that ended well

	meter Meter
}

// engine is what turns and leases of its engine are of.
func (p *Passage) engine() string { return p.Fleet + " " + p.Backend }

// Config is what a Guard is made of; all of it is needed. The options of calls have a codec that leaves
// *[]byte as it is.
type Config struct {
	Shared

	Conn    grpc.ClientConnInterface                                                              // continues the call that a context is of, once
	Onward  func(context.Context) (context.Context, []grpc.CallOption)                            // for calls by Conn
	Own     grpc.ClientConnInterface                                                              // makes calls of the Guard's own
	Beside  func(ctx context.Context, fleet, backend string) (context.Context, []grpc.CallOption) // for calls by Own
	Passage func(context.Context) *Passage
	Detach  func(context.Context, func(context.Context)) error // lets a function outlive the call that a context is of
	Refuse  func(context.Context, *call.Refusal) error         // what the caller gets
	Log     *slog.Logger
}

// Guard serves the guarded methods. Close ends it.
type Guard struct {
	cfg     Config
	alive   context.Context // what outlasts its caller goes on in it
	end     context.CancelFunc
	running sync.WaitGroup
}

// New makes a Guard.
func New(cfg Config) *Guard {
	g := &Guard{cfg: cfg}
	g.alive, g.end = context.WithCancel(context.Background())
	return g
}

// Close ends what goes on without a caller, and waits for it. It is for after the last call.
func (g *Guard) Close() {
	g.end()
	g.running.Wait()
}

// Serve answers a call. It is a grpc.StreamHandler for a server of a codec that leaves *[]byte as it is.
func (g *Guard) Serve(_ any, s grpc.ServerStream) error {
	ctx := s.Context()
	p := g.cfg.Passage(ctx)
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
		answer, err = g.resolve(ctx, p, msg)
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

// numberingOf is how the client of a call numbers modes.
func numberingOf(ctx context.Context, p *Passage) (Numbering, *call.Refusal) {
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
	refusedGone      = &call.Refusal{Kind: call.Unavailable, Reason: "SERVICE_UNAVAILABLE", Message: "the gateway is shutting down"}
	refusedOff       = &call.Refusal{Kind: call.FailedPrecondition, Reason: "ENGINE_OFF", Message: "this gateway guards no engines"}
	refusedNumbering = &call.Refusal{Kind: call.InvalidArgument, Reason: "SESSION_MODE_INVALID",
		Message: "metadata x-session-modes may be there once, and must be source or seed"}
	refusedMode = &call.Refusal{Kind: call.InvalidArgument, Reason: "SESSION_MODE_INVALID",
		Message: "mode is none of SessionMode, as its client numbers them"}
	refusedMalformed = &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED", Message: "the request is not a well-formed message of its method"}
	refusedAnswer    = &call.Refusal{Kind: call.DataLoss, Reason: "ENGINE_ANSWER_MALFORMED", Message: "the engine's answer is not a well-formed message of its method"}
	refusedAway      = &call.Refusal{Kind: call.Unavailable, Reason: "ENGINE_STATE_UNAVAILABLE", RetryAfter: time.Second,
		Message: "it cannot be found out now what other replicas know of this engine; nothing was sent to it"}
	refusedSession = &call.Refusal{Kind: call.NotFound, Reason: "ENGINE_SESSION_UNKNOWN", Message: "there is no such session"}
)

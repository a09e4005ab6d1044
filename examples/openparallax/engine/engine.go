package engine

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/examples/openparallax/shield"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// stopTimeout is the time that calls in flight have to end when the engine stops.
const stopTimeout = 5 * time.Second

// Config configures an engine. The zero value works.
type Config struct {
	Name   string         // display name of the agent; default "Atlas"
	Token  string         // required of agents; default none
	Shield *shield.Shield // default: shield.New
	// Spawn starts a sub-agent, which registers with the token. It must not block. Default: no sub-agents.
	Spawn           func(token string)
	Dir             string           // of the recorded sessions, which a later engine reads again; default: in memory
	ApprovalTimeout time.Duration    // timeout of approvals; default 5m
	Now             func() time.Time // default time.Now

	SeedModes   bool // session modes are numbered as documented: NORMAL 0, OTR 1
	KeepStreams bool // SendMessage ends with its client, not with the answer, as in older versions
	ApprovalIDs bool // questions are events with an id, as documented; published engines send neither type nor content
	BusyHistory bool // GetHistory fails, as in published engines while they write their memory
	IgnorePages bool // ListSessions and GetHistory ignore limit and offset, as in older versions
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "Atlas"
	}
	if c.Shield == nil {
		c.Shield = shield.New(shield.Config{})
	}
	if c.ApprovalTimeout <= 0 {
		c.ApprovalTimeout = 5 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Engine is one engine. It is safe for concurrent use; Serve serves it.
type Engine struct {
	openparallaxv1.UnimplementedAgentServiceServer
	openparallaxv1.UnimplementedClientServiceServer
	openparallaxv1.UnimplementedSubAgentServiceServer

	cfg       Config
	began     time.Time
	history   *history
	readers   *broadcaster
	approvals *approvals
	subAgents *subAgents
	recorded  error // error of reading Config.Dir; Serve returns it

	agent sync.Mutex // held while a directive is sent to the agent
	// conn is the agent's stream; nil: no agent.
	conn openparallaxv1.AgentService_RunSessionServer

	flag sync.Mutex
	otr  bool // of the most recent message of any session

	stop     context.CancelFunc
	shutdown context.Context // ends with Shutdown
}

// New returns an engine without an agent.
func New(cfg Config) *Engine {
	cfg = cfg.withDefaults()
	e := &Engine{
		cfg: cfg, began: cfg.Now(), history: newHistory(cfg.Now), readers: newBroadcaster(cfg.KeepStreams),
		approvals: newApprovals(), subAgents: newSubAgents(),
	}
	if cfg.Dir != "" {
		e.recorded = e.history.load(cfg.Dir)
	}
	e.shutdown, e.stop = context.WithCancel(context.Background())
	return e
}

// Register registers the engine's services with a server.
func (e *Engine) Register(server *grpc.Server) {
	openparallaxv1.RegisterAgentServiceServer(server, e)
	openparallaxv1.RegisterClientServiceServer(server, e)
	openparallaxv1.RegisterSubAgentServiceServer(server, e)
	openparallaxv1.RegisterShieldServiceServer(server, e.cfg.Shield)
}

// Serve serves the engine on ln until ctx ends or a client calls Shutdown, and shuts its agent down. It closes ln.
func (e *Engine) Serve(ctx context.Context, ln net.Listener) error {
	if e.recorded != nil {
		_ = ln.Close()
		return e.recorded
	}
	defer e.history.disk.close()
	server := grpc.NewServer()
	e.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	case <-e.shutdown.Done():
	}
	hard := time.AfterFunc(stopTimeout, server.Stop)
	defer hard.Stop()
	// An agent that has gone receives nothing.
	_ = e.direct(&openparallaxv1.EngineDirective{Directive: &openparallaxv1.EngineDirective_Shutdown{
		Shutdown: &openparallaxv1.ShutdownDirective{Reason: "the engine ends"},
	}})
	server.GracefulStop()
	if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // it was stopped before it served
		return err
	}
	return nil
}

// direct sends the agent a directive.
func (e *Engine) direct(d *openparallaxv1.EngineDirective) error {
	e.agent.Lock()
	defer e.agent.Unlock()
	if e.conn == nil {
		return errors.New("agent process not connected")
	}
	return e.conn.Send(d)
}

// offTheRecord reports whether a mode is OTR. All other numbers count as NORMAL.
func (e *Engine) offTheRecord(mode openparallaxv1.SessionMode) bool { return mode == e.mode(true) }

// mode returns this engine's number for a mode.
func (e *Engine) mode(otr bool) openparallaxv1.SessionMode {
	mode := openparallaxv1.SessionMode_NORMAL
	if otr {
		mode = openparallaxv1.SessionMode_OTR
	}
	if e.cfg.SeedModes {
		mode--
	}
	return mode
}

func (e *Engine) setFlag(otr bool) {
	e.flag.Lock()
	defer e.flag.Unlock()
	e.otr = otr
}

func (e *Engine) flagged() bool {
	e.flag.Lock()
	defer e.flag.Unlock()
	return e.otr
}

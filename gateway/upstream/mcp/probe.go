package mcp

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/health"
)

// renewWatch is how old a session without a server's memory gets that hears of changes: it does not notice when the
// server stops telling of them.
const renewWatch = 5 * time.Minute

// watch is the session that probes a server, and hears when its tools change.
type watch struct {
	turn  chan struct{} // capacity 1: held by the probe that uses the rest
	open  *sdk.ClientSession
	since time.Time
}

// probe is the health check of the servers of a fleet.
type probe struct {
	servers    *Servers
	capability string
}

var _ health.Direct = probe{}

// Probe returns the health check of a fleet's servers: they answer server/discover, or initialize and ping.
func (s *Servers) Probe(capability string) health.Question { return probe{s, capability} }

// Probe implements health.Question.
func (probe) Probe(context.Context, grpc.ClientConnInterface) (health.Result, error) {
	return health.Result{}, errors.New("an MCP server does not speak gRPC")
}

// ProbeAddr implements health.Direct.
func (p probe) ProbeAddr(ctx context.Context, url string) health.Result {
	return p.servers.probe(ctx, p.capability, url)
}

// probe asks a server for a sign of life.
func (s *Servers) probe(ctx context.Context, capability, url string) health.Result {
	server, release := s.server(capability, url)
	if server == nil {
		return health.Result{Reason: errGone.Error()}
	}
	defer release()
	select {
	case server.watch.turn <- struct{}{}:
	case <-ctx.Done():
		return health.Result{Reason: ctx.Err().Error()}
	}
	defer func() { <-server.watch.turn }()
	opened, err := server.look(ctx)
	if err == nil {
		if opened && !s.firstLook(capability, url) { // it was not heard for a while
			s.opts.Changed(capability)
		}
		return health.Result{OK: true}
	}
	return health.Result{Reason: err.Error(), Refused: errors.Is(err, syscall.ECONNREFUSED)}
}

// firstLook says whether a server was not heard before.
func (s *Servers) firstLook(capability, url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := serverKey{capability, url}
	before := s.heard[key]
	s.heard[key] = true
	return !before
}

// look asks the server for a sign of life where its session is there, or opens another one.
func (v *server) look(ctx context.Context) (opened bool, _ error) {
	cs := v.watched()
	if cs != nil && (v.old.Load() || time.Since(v.watch.since) < renewWatch) {
		var wire *jsonrpc.Error
		err := v.ask(ctx, cs)
		if err == nil || errors.As(err, &wire) { // an error is an answer, too
			return false, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	v.setWatched(nil)
	if cs != nil {
		v.abandon(cs)
	}
	next, err := v.connect(ctx, v.watcher, false)
	if err != nil {
		return false, err
	}
	v.setWatched(next)
	return true, nil
}

// errOtherEra is of a server that was replaced by one whose revisions have sessions.
var errOtherEra = errors.New("the server has sessions now")

// ask sends ping, or server/discover to a server without sessions, whose revisions have no ping.
func (v *server) ask(ctx context.Context, cs *sdk.ClientSession) error {
	if v.old.Load() {
		return cs.Ping(ctx, &sdk.PingParams{})
	}
	discovered, err := v.connect(ctx, v.callers, true)
	if err != nil {
		return err
	}
	v.abandon(discovered)
	if v.old.Load() {
		return errOtherEra
	}
	return nil
}

// watched returns the session; nil: there is none.
func (v *server) watched() *sdk.ClientSession {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.watch.open
}

func (v *server) setWatched(cs *sdk.ClientSession) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.watch.open, v.watch.since = cs, time.Now()
}

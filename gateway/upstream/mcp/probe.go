package mcp

import (
	"context"
	"errors"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/health"
)

// renewWatch is the maximum age of the session for notifications at a server without session state: the SDK does not
// detect that the server has stopped sending them.
const renewWatch = 5 * time.Minute

// watch is the session for probes of a server, and for notifications of changed lists.
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

// Probe implements health.Question.
func (probe) Probe(context.Context, grpc.ClientConnInterface) (health.Result, error) {
	return health.Result{}, errors.New("an MCP server does not speak gRPC")
}

// ProbeAddr implements health.Direct.
func (p probe) ProbeAddr(ctx context.Context, url string) health.Result {
	return p.servers.probe(ctx, p.capability, url)
}

// probe checks whether a server responds.
func (s *Servers) probe(ctx context.Context, capability, url string) health.Result {
	server, release, err := s.Lookup(capability, url)
	if err != nil {
		return health.Result{Reason: err.Error()}
	}
	defer release()
	select {
	case server.watch.turn <- struct{}{}:
	case <-ctx.Done():
		return health.Result{Reason: ctx.Err().Error()}
	}
	defer func() { <-server.watch.turn }()
	ctx, seen := withNote(ctx)
	opened, err := server.look(ctx)
	if err == nil {
		if opened && !s.firstLook(capability, url) { // it had not responded for a while
			s.Changed(capability)
		}
		return health.Result{OK: true}
	}
	refused := errors.Is(err, syscall.ECONNREFUSED)
	if refused {
		server.drop()
	}
	return health.Result{Reason: seen.reason(err), Refused: refused}
}

// firstLook reports whether a server responds for the first time.
func (s *Servers) firstLook(capability, url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := upstream.Key{Capability: capability, Addr: url}
	before := s.heard[key]
	s.heard[key] = true
	return !before
}

// look checks whether the server responds in its session, or opens a new one.
func (v *server) look(ctx context.Context) (opened bool, _ error) {
	cs := v.watched()
	if cs != nil && (v.old.Load() || time.Since(v.watch.since) < renewWatch) {
		if v.answers(ctx, cs) {
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

// answers sends ping, or server/discover to a server without sessions, whose revisions have no ping. It reports
// whether the server responded: the SDK also returns JSON-RPC errors for failed connections.
func (v *server) answers(ctx context.Context, cs *sdk.ClientSession) bool {
	if v.old.Load() {
		ex, end := begin(ctx, "ping", nil)
		defer end()
		return cs.Ping(ex.ctx, &sdk.PingParams{}) == nil || ex.lives()
	}
	ex, end := begin(ctx, discover, nil)
	defer end()
	discovered, err := v.connect(ex.ctx, v.callers, true)
	if err != nil {
		return ex.lives()
	}
	v.abandon(discovered)
	return !v.old.Load() // otherwise the server was replaced by one with sessions
}

// watched returns the session; nil means none.
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

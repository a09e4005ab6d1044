package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// modern is the first revision without sessions.
	modern = "2026-07-28"
	// legacy is the last revision with sessions.
	legacy = "2025-11-25"

	maxSessions = 10_000 // of callers at one server
	sweepEvery  = time.Minute
)

// sessionKey names a caller's session; zero: calls share one.
type sessionKey struct{ tenant, session string }

// session is a session at a server. Where the server has no sessions it is what was agreed on.
type session struct {
	turn  chan struct{} // capacity 1: held while it is opened
	open  atomic.Pointer[sdk.ClientSession]
	stale atomic.Bool // the tools that the SDK knows in it are former ones
	calls int         // under server.mu
	used  time.Time   // under server.mu
}

// server is one MCP server.
type server struct {
	opts      Options
	fleet     *Fleet
	url       string
	transport *transport
	callers   *sdk.Client    // of calls
	watcher   *sdk.Client    // of the session that hears of changes, see probe.go
	tokens    atomic.Uint64  // the last one by which a call wants its progress
	running   sync.WaitGroup // calls and probes
	old       atomic.Bool    // it had sessions at the last look

	mu       sync.Mutex
	sessions map[sessionKey]*session
	swept    time.Time
	watch    watch
}

func newServer(o Options, f *Fleet, url string) *server {
	v := &server{
		opts: o, fleet: f, url: url, sessions: map[sessionKey]*session{}, swept: time.Now(),
		transport: newTransport(f.TLS, headersOf(f.Headers), f.MaxMessage),
	}
	v.watch.turn = make(chan struct{}, 1)
	self := &sdk.Implementation{Name: "capgate", Version: o.Version}
	// Without handlers, and with no capability, servers are refused what they ask of a client.
	v.callers = sdk.NewClient(self, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	v.watcher = sdk.NewClient(self, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { v.changed() },
	})
	return v
}

// changed is told that the tools of the server are others. What was agreed on with it has the former ones.
func (v *server) changed() {
	if !v.old.Load() {
		v.mu.Lock()
		for _, s := range v.sessions {
			s.stale.Store(true)
		}
		v.mu.Unlock()
	}
	v.opts.Changed(v.fleet.Capability)
}

// connect opens a session. alone keeps the server from sending anything but answers.
func (v *server) connect(ctx context.Context, client *sdk.Client, alone bool) (*sdk.ClientSession, error) {
	options := &sdk.ClientSessionOptions{}
	if v.old.Load() {
		options.ProtocolVersion = legacy
	}
	to := &sdk.StreamableClientTransport{Endpoint: v.url, HTTPClient: v.transport.client(), MaxRetries: 2,
		DisableStandaloneSSE: alone, MaxEventSize: v.fleet.MaxMessage + maxNotice}
	cs, err := client.Connect(ctx, to, options)
	if err != nil {
		v.old.Store(false) // it may have been replaced
		return nil, err
	}
	v.old.Store(cs.InitializeResult().ProtocolVersion < modern)
	return cs, nil
}

// lease returns the session of a key. release is to be called after the call.
func (v *server) lease(key sessionKey) (_ *session, release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	v.sweep(now)
	s := v.sessions[key]
	if s == nil {
		s = &session{turn: make(chan struct{}, 1)}
		v.sessions[key] = s
	}
	s.calls++
	return s, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		s.calls--
		s.used = time.Now()
	}
}

// sweep ends sessions that had no call for long, and the longest unused ones where there are too many. The caller
// holds mu.
func (v *server) sweep(now time.Time) {
	if now.Sub(v.swept) < sweepEvery && len(v.sessions) < maxSessions {
		return
	}
	v.swept = now
	var oldest sessionKey
	var since time.Time
	for key, s := range v.sessions {
		switch {
		case s.calls > 0 || key == sessionKey{}:
		case now.Sub(s.used) > v.fleet.SessionTTL:
			delete(v.sessions, key)
			v.abandon(s.open.Load())
		case since.IsZero() || s.used.Before(since):
			oldest, since = key, s.used
		}
	}
	if len(v.sessions) >= maxSessions && !since.IsZero() {
		s := v.sessions[oldest]
		delete(v.sessions, oldest)
		v.abandon(s.open.Load())
	}
}

// abandon ends a session, if there is one, in the background.
func (v *server) abandon(cs *sdk.ClientSession) {
	if cs != nil {
		v.running.Add(1) // the caller is one of those that run, or retire has not begun
		go func() {
			defer v.running.Done()
			_ = cs.Close() // bounded by the SDK; a server that does not answer forgets the session by itself
		}()
	}
}

// ready returns the session, which it opens first if it is not.
func (v *server) ready(ctx context.Context, s *session) (*sdk.ClientSession, error) {
	if cs := s.open.Load(); cs != nil {
		if !s.stale.Swap(false) {
			return cs, nil
		}
		v.lost(s, cs)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if cs := s.open.Load(); cs != nil {
		return cs, nil
	}
	cs, err := v.connect(ctx, v.callers, true)
	if err != nil {
		return nil, err
	}
	if cs.InitializeResult().ProtocolVersion >= modern {
		v.learn(ctx, cs)
	}
	s.open.Store(cs)
	return cs, nil
}

// learn has the SDK know the tools, of which some want arguments in headers. It is no matter if that fails: those
// calls then do.
func (v *server) learn(ctx context.Context, cs *sdk.ClientSession) {
	_ = v.pages(ctx, cs, func([]json.RawMessage) {})
}

// lost takes a session out of use that the server does not know any more, or whose connection is over.
func (v *server) lost(s *session, cs *sdk.ClientSession) {
	if s.open.CompareAndSwap(cs, nil) {
		v.abandon(cs)
	}
}

// broken says whether an error is the end of a session.
func broken(err error) bool {
	return errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, sdk.ErrConnectionClosed)
}

// closeAll ends all sessions.
func (v *server) closeAll(ctx context.Context) {
	v.mu.Lock()
	var all []*sdk.ClientSession
	for key, s := range v.sessions {
		delete(v.sessions, key)
		if cs := s.open.Load(); cs != nil {
			all = append(all, cs)
		}
	}
	if v.watch.open != nil {
		all = append(all, v.watch.open)
	}
	v.mu.Unlock()
	var ending sync.WaitGroup
	const atOnce = 16
	permits := make(chan struct{}, atOnce)
	for _, cs := range all {
		select {
		case permits <- struct{}{}:
		case <-ctx.Done():
			return // servers end the others when they have not been used for long
		}
		ending.Go(func() {
			defer func() { <-permits }()
			_ = cs.Close()
		})
	}
	ending.Wait()
}

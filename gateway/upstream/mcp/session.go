package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/manifest"
)

const (
	// modern is the first revision without sessions.
	modern = "2026-07-28"
	// legacy is the last revision with sessions.
	legacy = "2025-11-25"

	maxSessions       = 10_000 // sessions of callers at one server
	maxTenantSessions = 1_000  // sessions of one tenant at one server
	sweepEvery        = time.Minute
)

// sessionKey identifies a caller's session. Clients that answer other questions have another one, because a client
// declares its capabilities for a session.
type sessionKey struct {
	tenant, session string // empty means all calls at a server without sessions
	kinds           questions.Kinds
}

// isShared reports whether the session is for all calls at a server without sessions.
func (k sessionKey) isShared() bool { return k.tenant == "" && k.session == "" }

// user is a user of a tenant.
type user struct{ tenant, name string }

// session is a session at a server. If the server has no sessions, it is the result of the negotiation.
type session struct {
	turn    chan struct{} // capacity 1: held while it is opened
	open    atomic.Pointer[opened]
	stale   atomic.Bool            // the tools that the SDK has cached in it are outdated
	works   atomic.Bool            // a request has succeeded in it
	gone    atomic.Pointer[string] // id of a former session that the server has forgotten
	renewed atomic.Int64           // last renewal in the store of all replicas, in ns since 1970
	held    *fairshare.Account
	user    string    // that opened it
	follows int       // subscriptions; guarded by server.mu
	unheld  func()    // ends the hold of the subscriptions; guarded by server.mu
	calls   int       // guarded by server.mu
	used    time.Time // guarded by server.mu
}

// server is an MCP server.
type server struct {
	all       *upstream.Fleets[*server]
	fleet     *upstream.Fleet
	settings  *Settings
	url       string
	transport *transport
	leave     func() // ends to follow the login of the fleet
	listed    atomic.Pointer[listed]
	taskTools atomic.Pointer[taskTools] // tools that are called as tasks; nil means not known
	listing   chan struct{}             // capacity 1: held while taskTools is listed for a call
	callers   *sdk.Client               // for calls
	watcher   *sdk.Client               // for the session that receives notifications of changed lists, see probe.go
	name      string                    // random, so that progress tokens of replicas are distinct
	tokens    atomic.Uint64             // last progress token of a call
	running   sync.WaitGroup            // calls and probes
	old       atomic.Bool               // it had sessions at the last check
	binds     atomic.Bool               // it assigned an id to the last session, so it keeps state for it
	shares    bool                      // replicas continue each other's sessions
	modern    atomic.Bool               // it supports no revision with sessions, although the fleet requests one

	offers atomic.Pointer[manifest.Features] // the last lists of features; nil means none

	mu       sync.Mutex
	sessions map[sessionKey]*session
	tenants  map[string]int             // number of sessions by tenant
	users    map[user]int               // the same by user
	follows  map[string]*fairshare.Pool // streams of subscriptions by tenant, which its users share
	swept    time.Time
	watch    watch
}

func newServer(all *upstream.Fleets[*server], f *upstream.Fleet, url string) *server {
	settings := settingsOf(f)
	v := &server{
		all: all, fleet: f, settings: settings, url: url, shares: settings.shares(url), name: rand.Text() + "-",
		sessions: map[sessionKey]*session{}, tenants: map[string]int{}, users: map[user]int{},
		follows:   map[string]*fairshare.Pool{},
		swept:     time.Now(),
		transport: newTransport(secureFor(f, url), headersOf(f.Headers), settings.maxMessage()),
	}
	v.transport.host = hostFor(f, url)
	v.transport.assert = func(ctx context.Context) (string, error) { return all.Assert(ctx, f, url) }
	v.authenticate()
	v.watch.turn, v.listing = make(chan struct{}, 1), make(chan struct{}, 1)
	v.callers = v.client(0)
	v.watcher = sdk.NewClient(v.implementation(), &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:   func(context.Context, *sdk.ToolListChangedRequest) { v.changed() },
		PromptListChangedHandler: func(context.Context, *sdk.PromptListChangedRequest) { v.all.Changed(f.Capability) },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) {
			v.all.Changed(f.Capability)
		},
	})
	return v
}

// changed is called when the tools of the server have changed. Negotiated sessions have cached the previous ones.
func (v *server) changed() {
	if known := v.taskTools.Load(); known != nil {
		v.taskTools.Store(&taskTools{names: known.names})
	}
	if !v.old.Load() {
		v.mu.Lock()
		for _, s := range v.sessions {
			s.stale.Store(true)
		}
		v.mu.Unlock()
	}
	v.all.Changed(v.fleet.Capability)
}

// connect opens a session. If alone is true, the server cannot send anything but responses.
func (v *server) connect(ctx context.Context, client *sdk.Client, alone bool) (*sdk.ClientSession, error) {
	return v.connectBy(ctx, client, alone, v.transport)
}

// connectBy is connect with the HTTP client of the session.
func (v *server) connectBy(ctx context.Context, client *sdk.Client, alone bool, by http.RoundTripper) (
	*sdk.ClientSession, error) {
	revision, to := v.revision(), v.streamable(by, alone)
	cs, err := client.Connect(ctx, to, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil && ctx.Err() == nil && v.fleet.Sessions && v.settings.Revision == "" && revision == legacy &&
		!errors.Is(err, syscall.ECONNREFUSED) {
		if cs, err = client.Connect(ctx, to, nil); err == nil {
			v.modern.Store(cs.InitializeResult().ProtocolVersion >= modern)
		}
	}
	if err != nil { // the server may have been replaced
		v.old.Store(false)
		v.modern.Store(false)
		return nil, err
	}
	v.old.Store(cs.InitializeResult().ProtocolVersion < modern)
	v.binds.Store(cs.ID() != "")
	return cs, nil
}

// streamable returns the SDK's transport of one session, see connect.
func (v *server) streamable(by http.RoundTripper, alone bool) *sdk.StreamableClientTransport {
	return &sdk.StreamableClientTransport{Endpoint: v.url, HTTPClient: v.transport.client(by), MaxRetries: 2,
		DisableStandaloneSSE: alone, MaxEventSize: v.settings.maxMessage() + maxNotice}
}

// revision returns the revision to request first; empty means the newest.
func (v *server) revision() string {
	switch {
	case v.settings.Revision != "":
		return v.settings.Revision
	case v.old.Load(), v.fleet.Sessions && !v.modern.Load():
		return legacy
	}
	return ""
}

// errUnbound is returned for a session that a server has opened for calls of all tenants.
var errUnbound = errors.New("the server has sessions, and this call must have its own")

// keyOf returns the key of a call's session. If the server keeps state for sessions, tenants do not share one, and
// calls that name none use that of their principal.
func (v *server) keyOf(tenant, session, own string, kinds questions.Kinds) sessionKey {
	if !v.binds.Load() {
		return sessionKey{kinds: kinds}
	}
	return sessionKey{tenant, cmp.Or(session, own), kinds}
}

// lease returns the session of a key, and opens one for a user. release must be called after the call. The error, a
// gRPC status, means that there is no room for another session.
func (v *server) lease(key sessionKey, by string) (_ *session, release func(), _ error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	v.sweep(now)
	s := v.sessions[key]
	if s == nil {
		held, err := v.charge(key, by)
		if err != nil {
			return nil, nil, err
		}
		s = &session{turn: make(chan struct{}, 1), held: held, user: by}
		v.sessions[key] = s
		v.tenants[key.tenant]++
		v.users[user{key.tenant, by}]++
	}
	s.calls++
	return s, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		s.calls--
		s.used = time.Now()
	}, nil
}

// sweep ends sessions that have not been used for long. The caller must hold mu.
func (v *server) sweep(now time.Time) {
	if now.Sub(v.swept) < sweepEvery {
		return
	}
	v.swept = now
	for key, s := range v.sessions {
		switch o := s.open.Load(); {
		case key.isShared():
		case s.calls > 0 && o != nil: // other replicas must not end it
			v.background(func() { v.isCurrent(context.Background(), key, s, o) })
		case s.calls == 0 && now.Sub(s.used) > v.idle():
			v.remove(key, s, v.idle())
		}
	}
}

// remove ends a session, unless another replica has used it within idle. The caller must hold mu.
func (v *server) remove(key sessionKey, s *session, idle time.Duration) {
	delete(v.sessions, key)
	if v.tenants[key.tenant]--; v.tenants[key.tenant] == 0 {
		delete(v.tenants, key.tenant)
	}
	of := user{key.tenant, s.user}
	if v.users[of]--; v.users[of] == 0 {
		delete(v.users, of)
	}
	s.free()
	if o := s.open.Load(); o != nil {
		v.background(func() { o.end(idle) })
	}
}

// drop ends the sessions of a server whose process has ended, because its successor does not know them. Other replicas
// may still reach it: sessions that they use end here alone.
func (v *server) drop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	var ends []func()
	for _, s := range v.sessions {
		if o := s.open.Swap(nil); o != nil {
			ends = append(ends, func() { o.end(v.recent()) })
		}
	}
	if len(ends) > 0 {
		v.background(func() { few(ends) })
	}
}

// few runs functions, a few at once.
func few(all []func()) {
	var running sync.WaitGroup
	const atOnce = 16
	permits := make(chan struct{}, atOnce)
	for _, f := range all {
		permits <- struct{}{}
		running.Go(func() {
			defer func() { <-permits }()
			f()
		})
	}
	running.Wait()
}

// background runs f in a goroutine.
func (v *server) background(f func()) {
	v.running.Go(f) // the caller is counted in running, or Close has not started
}

// abandon ends a session in the background. One that replicas share ends here alone.
func (v *server) abandon(cs io.Closer) {
	v.background(func() {
		_ = cs.Close() // limited by the SDK; a server that does not respond drops the session itself
	})
}

// ready returns the session, and opens it if necessary.
func (v *server) ready(ctx context.Context, key sessionKey, s *session) (*opened, error) {
	if o := s.open.Load(); o != nil {
		if !s.stale.Swap(false) && v.isCurrent(ctx, key, s, o) {
			return o, nil
		}
		v.lost(s, o)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if o := s.open.Load(); o != nil {
		return o, nil
	}
	if key.isShared() { // it is for all callers
		ctx = upstream.WithoutCaller(ctx)
	}
	client := v.callers
	if key.kinds != 0 {
		client = v.client(key.kinds)
	}
	o, err := v.enter(ctx, key, s, client)
	if err != nil {
		return nil, err
	}
	if o.ID() != "" && key.isShared() {
		v.abandon(o)
		return nil, errUnbound
	}
	if o.InitializeResult().ProtocolVersion >= modern {
		v.learn(ctx, o.ClientSession)
	}
	s.works.Store(o.link.of != nil) // otherwise a server that has forgotten it would not be recognized
	s.open.Store(o)
	return o, nil
}

// learn makes the SDK cache the tools, some of which require arguments in headers. If that fails, only calls of those
// tools fail.
func (v *server) learn(ctx context.Context, cs *sdk.ClientSession) {
	_ = v.pages(ctx, cs, toolListing(), func([]json.RawMessage) {})
}

// lost drops a session of this replica. If it shares another one with the others, it continues that.
func (v *server) lost(s *session, o *opened) {
	if s.open.CompareAndSwap(o, nil) {
		v.abandon(o)
	}
}

// broken reports whether an error means the end of a session.
func broken(err error) bool {
	return errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, sdk.ErrConnectionClosed)
}

// closeAll ends all sessions. When ctx has ended, the others end here alone: servers end sessions that are unused for
// long.
func (v *server) closeAll(ctx context.Context) {
	ended := context.AfterFunc(ctx, func() { v.transport.silent.Store(true) })
	defer ended()
	v.mu.Lock()
	var all []func()
	add := func(cs io.Closer) { all = append(all, func() { _ = cs.Close() }) } // the SDK limits the time
	for key, s := range v.sessions {
		delete(v.sessions, key)
		s.free()
		if o := s.open.Load(); o != nil {
			add(o)
		}
	}
	if v.watch.open != nil {
		add(v.watch.open)
	}
	v.mu.Unlock()
	few(all)
}

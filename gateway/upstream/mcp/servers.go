package mcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/semaphore"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Options of Servers. The zero value works.
type Options struct {
	Version string       // of the gateway, which servers are told
	Log     *slog.Logger // default: discard
	// Changed is told that the tools of a fleet may have changed. It must not block. Default: not told.
	Changed func(capability string)
}

// Fleet is a fleet of MCP servers.
type Fleet struct {
	Capability string
	Backends   []string          // URLs
	TLS        *tls.Config       // of those with https; nil: the system's authorities; unchanged, it is the same pointer
	Headers    map[string]string // of each request
	MaxMessage int               // bytes of a server's message; default 8 MiB
	Sessions   bool              // each session of a caller has its own session at the server
	SessionTTL time.Duration     // of one without calls; default 1 h
	Revision   string            // of the protocol that is requested first; "": legacy with Sessions, else the newest
}

// same says whether calls of two fleets reach a server in the same way.
func (f *Fleet) same(o *Fleet) bool {
	return f.TLS == o.TLS && f.MaxMessage == o.MaxMessage && f.Sessions == o.Sessions && f.SessionTTL == o.SessionTTL && f.Revision == o.Revision &&
		maps.Equal(f.Headers, o.Headers)
}

// Servers are the MCP servers of all fleets. They are safe for concurrent use.
type Servers struct {
	opts Options
	work *semaphore.Semaphore // of the CPU work of discoveries, by fleet
	room room

	mu      sync.Mutex
	fleets  map[string]*Fleet
	servers map[serverKey]*server
	heard   map[serverKey]bool // those of fleets that were probed
	closed  bool
	closing sync.WaitGroup // of sessions
}

const (
	atOnce     = 2   // lists of tools that are compiled; a fleet has one of them at most
	maxWaiting = 100 // lists of a fleet that wait for that
)

type serverKey struct{ capability, url string }

// New returns Servers without a fleet.
func New(o Options) *Servers {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	return &Servers{opts: o, work: semaphore.New(atOnce, maxWaiting), fleets: map[string]*Fleet{}, servers: map[serverKey]*server{}, heard: map[serverKey]bool{}}
}

// Set replaces all fleets. Calls that run at a server that is no more, or is reached in another way from now on, end
// first.
func (s *Servers) Set(fleets []Fleet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.fleets
	s.fleets = make(map[string]*Fleet, len(fleets))
	for i := range fleets {
		f := fleets[i]
		f.MaxMessage, f.SessionTTL = cmp.Or(f.MaxMessage, 8<<20), cmp.Or(f.SessionTTL, time.Hour)
		if old := before[f.Capability]; old != nil && old.same(&f) {
			f.TLS = old.TLS
		}
		s.fleets[f.Capability] = &f
	}
	for key := range s.heard {
		if f := s.fleets[key.capability]; f == nil || !slices.Contains(f.Backends, key.url) {
			delete(s.heard, key)
		}
	}
	for key, server := range s.servers {
		f := s.fleets[key.capability]
		if f == nil || !slices.Contains(f.Backends, key.url) || !server.fleet.same(f) {
			delete(s.servers, key)
			s.retire(server)
		}
	}
}

// Close ends all sessions, and waits for that. No call may run.
func (s *Servers) Close() {
	s.mu.Lock()
	s.closed = true
	for key, server := range s.servers {
		delete(s.servers, key)
		s.retire(server)
	}
	s.mu.Unlock()
	s.closing.Wait()
}

func (s *Servers) retire(server *server) { s.closing.Go(server.retire) }

// server returns one that may be used until release is called; nil: there is none, as the fleet has changed.
func (s *Servers) server(capability, url string) (_ *server, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fleets[capability]
	if f == nil || s.closed || !slices.Contains(f.Backends, url) {
		return nil, nil
	}
	key := serverKey{capability, url}
	one := s.servers[key]
	if one == nil {
		one = newServer(s, f, url)
		s.servers[key] = one
	}
	one.running.Add(1)
	return one, one.running.Done
}

// Serve returns what answers the calls for a server in its place, see relay.UpstreamConfig.
func (s *Servers) Serve(capability, url string) func(*relay.ServerStream) relay.Status {
	local := &localgrpc.Server{Name: "mcp", MaxMessage: maxRequest}
	docpb.RegisterCapabilityServer(local, &capabilityServer{servers: s, capability: capability, url: url})
	return local.Serve
}

// maxRequest is the longest request of a call, in bytes.
const maxRequest = 16 << 20

// headersOf are the configured headers as net/http has them.
func headersOf(all map[string]string) http.Header {
	h := make(http.Header, len(all))
	for name, value := range all {
		h.Set(name, value)
	}
	return h
}

// closeTimeout bounds the end of a session, of which the server is told.
const closeTimeout = 5 * time.Second

// retire ends the sessions when no call needs them any more.
func (v *server) retire() {
	v.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	v.closeAll(ctx)
	v.transport.base.CloseIdleConnections()
}

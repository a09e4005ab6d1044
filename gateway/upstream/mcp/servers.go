package mcp

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/health"
)

// Servers holds the MCP servers of all fleets. It is safe for concurrent use.
type Servers struct {
	*upstream.Fleets[*server]

	mu    sync.Mutex
	heard map[upstream.Key]bool // servers of fleets that have responded to a probe
}

var _ upstream.Backends = (*Servers)(nil)

// Open returns Servers without a fleet.
func Open(o upstream.Options) upstream.Backends {
	s := &Servers{heard: map[upstream.Key]bool{}}
	s.Fleets = upstream.NewFleets(o, upstream.Kind[*server]{Open: s.open, Same: same, Gone: errGone})
	return s
}

func (s *Servers) open(f *upstream.Fleet, url string) (*server, error) {
	return newServer(s.Fleets, f, url), nil
}

// same reports whether calls of two fleets reach a server in the same way.
func same(a, b *upstream.Fleet) bool {
	one, other := settingsOf(a), settingsOf(b)
	return one.MaxMessage == other.MaxMessage && one.Revision == other.Revision && one.Sessions == other.Sessions &&
		one.questions() == other.questions() && reflect.DeepEqual(one.OAuth, other.OAuth)
}

// Set implements upstream.Backends.
func (s *Servers) Set(fleets []upstream.Fleet) {
	s.setLogins(fleets)
	s.Replace(fleets)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.heard, func(key upstream.Key, _ bool) bool { return !s.Has(key) })
}

// Serve implements upstream.Backends.
func (s *Servers) Serve(capability, url string) func(*relay.ServerStream) relay.Status {
	return upstream.Serve("mcp", &capabilityServer{servers: s, capability: capability, url: url})
}

// Probe implements upstream.Backends: servers must respond to server/discover, or to initialize and ping.
func (s *Servers) Probe(capability string) health.Question { return probe{s, capability} }

// headersOf returns the configured headers as an http.Header.
func headersOf(all map[string]string) http.Header {
	h := make(http.Header, len(all))
	for name, value := range all {
		h.Set(name, value)
	}
	return h
}

// closeTimeout is the timeout for ending a session at the server.
const closeTimeout = 5 * time.Second

// Fleet implements upstream.Backend.
func (v *server) Fleet() *upstream.Fleet { return v.fleet }

// Uses implements upstream.Backend.
func (v *server) Uses() *sync.WaitGroup { return &v.running }

// Close implements upstream.Backend. It ends the sessions.
func (v *server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	v.closeAll(ctx)
	if v.transport.tokens != nil {
		v.leave()
		v.transport.tokens.Close()
	}
	v.transport.base.CloseIdleConnections()
}

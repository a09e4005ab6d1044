package upstream_test

import (
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// opened is a backend that notes when it is closed.
type opened struct {
	fleet  *upstream.Fleet
	uses   sync.WaitGroup
	closed chan struct{}
}

func (o *opened) Fleet() *upstream.Fleet { return o.fleet }
func (o *opened) Uses() *sync.WaitGroup  { return &o.uses }
func (o *opened) Close()                 { close(o.closed) }

// TestFleets: a backend is opened once, replaced when calls of it are others from now on, and closed after its last
// use.
func TestFleets(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	fleets := upstream.NewFleets(upstream.Options{}, upstream.Kind[*opened]{Gone: gone,
		Open: func(f *upstream.Fleet, _ string) (*opened, error) {
			return &opened{fleet: f, closed: make(chan struct{})}, nil
		},
		Same: func(a, b *upstream.Fleet) bool {
			return a.Protocol.(*mcp.Settings).Revision == b.Protocol.(*mcp.Settings).Revision
		}})
	fleet := upstream.Fleet{Capability: id, Backends: []string{"a", "b"}, Protocol: &mcp.Settings{}}
	get := func(addr string) *opened {
		t.Helper()
		b, release, err := fleets.Lookup(id, addr)
		check.Must(t, err)
		release()
		return b
	}
	fleets.Replace([]upstream.Fleet{fleet})
	for name, edit := range map[string]func(){
		"settings": func() { fleet.Protocol = &mcp.Settings{Revision: "2025-06-18"} },
		"headers":  func() { fleet.Headers = map[string]string{"a": "b"} },
		"content":  func() { fleet.Content = new(int) },
		"hosts":    func() { fleet.Hosts = map[string]string{"a": "b"} },
		"TLS":      func() { fleet.TLS = &tls.Config{MinVersion: tls.VersionTLS13} },
		"sessions": func() { fleet.Sessions = true },
		"TTL":      func() { fleet.SessionTTL = 1 },
	} {
		before, release, err := fleets.Lookup(id, "a")
		check.Must(t, err)
		if changed := fleets.Replace([]upstream.Fleet{fleet}); len(changed) > 0 || get("a") != before {
			t.Errorf("%s: the same fleet has changed: %v", name, changed)
		}
		edit()
		if changed := fleets.Replace([]upstream.Fleet{fleet}); !slices.Equal(changed, []string{id}) ||
			get("a") == before {
			t.Errorf("%s: another fleet has not changed: %v", name, changed)
		}
		select {
		case <-before.closed:
			t.Errorf("%s: the backend of before is closed while it has a use", name)
		default:
		}
		release()
		check.Received(t, before.closed, "the end of the backend of before")
	}
	fleet.SessionTTL = 0
	fleets.Replace([]upstream.Fleet{fleet})
	fleet.SessionTTL = time.Hour
	if changed := fleets.Replace([]upstream.Fleet{fleet}); len(changed) > 0 {
		t.Errorf("the default in words is another fleet: %v", changed)
	}
	last := get("a")
	fleet.Backends = []string{"b"}
	fleets.Replace([]upstream.Fleet{fleet})
	if _, _, err := fleets.Lookup(id, "a"); !errors.Is(err, gone) {
		t.Errorf("a backend that was removed: %v", err)
	}
	check.Received(t, last.closed, "the end of a backend that was removed")
	other := get("b")
	fleets.Close()
	if _, _, err := fleets.Lookup(id, "b"); !errors.Is(err, gone) {
		t.Errorf("after the end: %v", err)
	}
	check.Received(t, other.closed, "the end of all")
}

// TestProtocols: each protocol gets its own fleets, and Selu's backends are left to the relay.
func TestProtocols(t *testing.T) {
	t.Parallel()
	servers, services := mcp.Open(upstream.Options{}), grpcservice.Open(upstream.Options{})
	all := upstream.Protocols{mcp.Name: servers, grpcservice.Name: services}
	defer all.Close()
	all.Set([]upstream.Fleet{{Capability: "m", Protocol: &mcp.Settings{}},
		{Capability: "g", Protocol: &grpcservice.Settings{}}})
	for capability, protocol := range map[string]router.Protocol{"m": &mcp.Settings{}, "g": &grpcservice.Settings{},
		"s": nil} {
		table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{Capability: capability,
			Backends: router.Addrs("a:1"), Protocol: protocol}}}, nil)
		check.Must(t, err)
		serve := all.Serve(table.Fleet(capability), "a:1")
		secure := &tls.Config{MinVersion: tls.VersionTLS13}
		probe := health.Fleet{Capability: capability, TLS: secure}
		all.SetProbe(protocol, &probe)
		_, direct := probe.Asks.(health.Direct)
		if (serve == nil) != (protocol == nil) || (probe.Asks == nil) != (protocol == nil) ||
			(probe.TLS == nil) != direct {
			t.Errorf("%s: served: %t, probe: %+v", capability, serve != nil, probe)
		}
	}
	for backends, capability := range map[*upstream.Fleet]string{
		servers.(*mcp.Servers).Fleet("m"): "m", services.(*grpcservice.Services).Fleet("g"): "g"} {
		if backends == nil || backends.Capability != capability {
			t.Errorf("%s: %+v", capability, backends)
		}
	}
	if servers.(*mcp.Servers).Fleet("g") != nil || services.(*grpcservice.Services).Fleet("m") != nil {
		t.Error("a protocol has the fleet of another one")
	}
}

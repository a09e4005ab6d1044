package grpcservice

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/assertion"
)

// Services holds the backends of all fleets. It is safe for concurrent use.
type Services struct{ *upstream.Fleets[*backend] }

var (
	_ upstream.Backends = (*Services)(nil)
	_ upstream.Checker  = (*Services)(nil)
)

// Open returns Services without a fleet.
func Open(o upstream.Options) upstream.Backends {
	s := &Services{}
	s.Fleets = upstream.NewFleets(o, upstream.Kind[*backend]{Open: s.open, Same: same, Gone: errGone})
	return s
}

func (s *Services) open(f *upstream.Fleet, addr string) (*backend, error) {
	return newBackend(s.Fleets, f, addr)
}

// same reports whether two fleets have the same tools and messages.
func same(a, b *upstream.Fleet) bool {
	one, other := settingsOf(a), settingsOf(b)
	return one.MaxMessage == other.MaxMessage && one.ToolNames == other.ToolNames &&
		slices.Equal(one.Methods, other.Methods)
}

// Set implements upstream.Backends.
func (s *Services) Set(fleets []upstream.Fleet) {
	for i := range fleets {
		if d := definitionsOf(&fleets[i]); d != nil {
			d.logged.Do(func() { logLeftOut(s.Log.With("capability", fleets[i].Capability), d.leftOut) })
		}
	}
	for _, capability := range s.Replace(fleets) {
		s.Changed(capability)
	}
}

// Serve implements upstream.Backends.
func (s *Services) Serve(capability, addr string) func(*relay.ServerStream) relay.Status {
	return upstream.Serve("grpc service", &capabilityServer{services: s, capability: capability, addr: addr})
}

// Probe implements upstream.Backends.
func (s *Services) Probe(capability string) health.Question { return probe{s, capability} }

// metadataOf returns the configured metadata of each call to a fleet's backends.
func metadataOf(f *upstream.Fleet) metadata.MD { return metadata.New(f.Headers) }

// asserted returns the configured metadata with the assertion of the caller in ctx, if the fleet requires assertions.
func asserted(ctx context.Context, all *upstream.Fleets[*backend], f *upstream.Fleet) (metadata.MD, error) {
	md := metadataOf(f)
	signed, err := all.Assert(ctx, f, f.Capability)
	if signed != "" {
		md.Set(assertion.Header, signed)
	}
	return md, err
}

// Fleet implements upstream.Backend.
func (b *backend) Fleet() *upstream.Fleet { return b.fleet }

// Uses implements upstream.Backend.
func (b *backend) Uses() *sync.WaitGroup { return &b.running }

// Close implements upstream.Backend.
func (b *backend) Close() {
	b.links.close()
	_ = b.conn.Close()
}

// Check implements upstream.Checker.
func (s *Services) Check(capability, addr string) {
	if b, open := s.Opened(capability, addr); open {
		b.links.check(b.answers, s.Silence)
	}
}

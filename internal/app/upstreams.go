package app

import (
	"crypto/tls"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/router"
)

// upstreams are what stands for backends that are no capabilities.
type upstreams struct {
	mcp  *mcp.Servers
	grpc *grpcservice.Services
}

// newUpstreams makes what stands for backends that are no capabilities.
func (p *App) newUpstreams() {
	changed := func(capability string) { p.discovery.Changed(capability) }
	p.upstreams.mcp = mcp.New(mcp.Options{Version: p.options.Version, Log: p.log, Changed: changed})
	p.upstreams.grpc = grpcservice.New(grpcservice.Options{Log: p.log, Changed: changed})
}

// set replaces the fleets of each protocol.
func (u *upstreams) set(next *plan) {
	u.mcp.Set(next.mcp)
	u.grpc.Set(next.grpc)
}

// close ends all connections.
func (u *upstreams) close() {
	if u.mcp != nil {
		u.mcp.Close()
		u.grpc.Close()
	}
}

// serve returns what answers for a backend that is no capability; nil: it is one, or an engine.
func (u *upstreams) serve(f *router.Fleet, addr string) gateway.LocalServer {
	switch f.Protocol().(type) {
	case *mcp.Settings:
		return u.mcp.Serve(f.Capability, addr)
	case *grpcservice.Settings:
		return u.grpc.Serve(f.Capability, addr)
	}
	return nil
}

// probeFor sets how backends are probed that are no capabilities.
func (u *upstreams) probeFor(from *config.Fleet, probe *health.Fleet) {
	switch from.Settings.(type) {
	case *mcp.Settings: // it reaches them by itself
		probe.Asks, probe.TLS = u.mcp.Probe(from.Capability), nil
	case *grpcservice.Settings:
		probe.Asks = u.grpc.Probe(from.Capability)
	}
}

// listed is the manifest of a fleet whose backends list their tools. It is the same as before where it does not differ.
func (p *planner) listed(f *config.Fleet) *manifest.Manifest {
	if old := p.fleets[f.Capability]; old != nil && old.from.Tools && old.manifest.Class == f.Class {
		return old.manifest
	}
	return &manifest.Manifest{ID: f.Capability, Class: f.Class, Dynamic: true, DiscoveryTool: upstream.DiscoveryTool}
}

// mcpFleetOf returns a fleet of MCP servers; nil: it is of something else. secure is TLS as the file has it.
func mcpFleetOf(s *settings.Settings, f *config.Fleet, secure *tls.Config) *mcp.Fleet {
	of, is := f.Settings.(*mcp.Settings)
	if !is {
		return nil
	}
	return &mcp.Fleet{
		Capability: f.Capability, Backends: f.Addrs(), TLS: secure, Headers: s.MCPHeaders[f.Capability],
		MaxMessage: int(of.MaxMessage), Sessions: f.Affinity.Sessions, SessionTTL: f.Affinity.SessionTTL,
		Revision: of.Revision,
	}
}

// grpcFleetOf returns a fleet of gRPC services; nil: it is of something else. Its backends are those that are probed.
func grpcFleetOf(s *settings.Settings, f *config.Fleet, probed *health.Fleet, secure *tls.Config) *grpcservice.Fleet {
	of, is := f.Settings.(*grpcservice.Settings)
	if !is {
		return nil
	}
	read := s.GRPC[f.Capability]
	return &grpcservice.Fleet{
		Capability: f.Capability, Backends: probed.Backends, Hosts: probed.Hosts, TLS: secure,
		Methods: of.Methods, ToolNames: of.ToolNames, Definitions: read.Definitions, Headers: read.Headers,
		MaxMessage: int(of.MaxMessage),
	}
}

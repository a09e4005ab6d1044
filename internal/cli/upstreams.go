package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/router"
)

// upstreams are what stands for backends that are no capabilities.
type upstreams struct {
	mcp  *mcp.Servers
	grpc *grpcservice.Services
}

// newUpstreams makes what stands for backends that are no capabilities.
func (p *process) newUpstreams() {
	version, _, _ := buildInfo()
	changed := func(capability string) { p.discovery.Changed(capability) }
	p.upstreams.mcp = mcp.New(mcp.Options{Version: version, Log: p.log, Changed: changed})
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

// headersFor reads the headers of requests to a fleet's backends from a file, and from an environment variable; each
// may be "".
func (s *settings) headersFor(file, variable string, reserved func(string) bool) (map[string]string, error) {
	all := map[string]string{}
	if file != "" {
		headers, err := readHeaders(file, s.files)
		if err != nil {
			return nil, fmt.Errorf("headers_file: %w", err)
		}
		all = headers
	}
	if variable != "" {
		text, is := os.LookupEnv(variable)
		if !is {
			return nil, fmt.Errorf("headers_env: the environment variable %s is not set", variable)
		}
		headers, err := parseHeaders([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("headers_env: the environment variable %s: %w", variable, err)
		}
		maps.Copy(all, headers)
	}
	for name := range all {
		if reserved(name) {
			return nil, errors.New("the header " + name + " is one of the protocol's own; remove it")
		}
	}
	return all, nil
}

// listed is the manifest of a fleet whose backends list their tools. It is the same as before where it does not differ.
func (p *planner) listed(f *config.Fleet) *manifest.Manifest {
	if old := p.fleets[f.Capability]; old != nil && old.from.Tools && old.manifest.Class == f.Class {
		return old.manifest
	}
	return &manifest.Manifest{ID: f.Capability, Class: f.Class, Dynamic: true, DiscoveryTool: upstream.DiscoveryTool}
}

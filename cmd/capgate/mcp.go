package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/router"
)

// newMCPServers makes what stands for MCP servers.
func (p *process) newMCPServers() {
	version, _, _ := buildInfo()
	p.mcpServers = mcp.New(mcp.Options{Version: version, Log: p.log,
		Changed: func(capability string) { p.discovery.Changed(capability) }})
}

// localServers are what answers for backends that do not speak gRPC.
func (p *process) localServers(f *router.Fleet, addr string) gateway.LocalServer {
	if _, is := f.Protocol().(*mcp.Settings); is {
		return p.mcpServers.Serve(f.Capability, addr)
	}
	return nil
}

// readMCPHeaders reads the headers of requests to MCP servers.
func (s *settings) readMCPHeaders() (problems []error) {
	s.mcpHeaders = map[string]map[string]string{}
	for i := range s.cfg.Fleets {
		f := &s.cfg.Fleets[i]
		of, is := f.Settings.(*mcp.Settings)
		if !is {
			continue
		}
		headers, err := s.mcpHeadersOf(of)
		if err != nil {
			problems = append(problems, fmt.Errorf("fleet %s: mcp_server: %w", f.Capability, err))
		}
		s.mcpHeaders[f.Capability] = headers
	}
	return problems
}

func (s *settings) mcpHeadersOf(of *mcp.Settings) (map[string]string, error) {
	all := map[string]string{}
	if of.HeadersFile != "" {
		headers, err := readHeaders(of.HeadersFile, s.files)
		if err != nil {
			return nil, fmt.Errorf("headers_file: %w", err)
		}
		all = headers
	}
	if name := of.HeadersEnv; name != "" {
		text, is := os.LookupEnv(name)
		if !is {
			return nil, fmt.Errorf("headers_env: the environment variable %s is not set", name)
		}
		headers, err := parseHeaders([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("headers_env: the environment variable %s: %w", name, err)
		}
		maps.Copy(all, headers)
	}
	for name := range all {
		if mcp.ReservedHeader(name) {
			return nil, errors.New("the header " + name + " is one of the protocol's own; remove it")
		}
	}
	return all, nil
}

// mcpFleet is a fleet of MCP servers; nil: it is of something else. secure is TLS as the file has it.
func (s *settings) mcpFleet(f *config.Fleet, secure *tls.Config) *mcp.Fleet {
	of, is := f.Settings.(*mcp.Settings)
	if !is {
		return nil
	}
	return &mcp.Fleet{
		Capability: f.Capability, Backends: f.Addrs(), TLS: secure, Headers: s.mcpHeaders[f.Capability],
		MaxMessage: int(of.MaxMessage), Sessions: f.Affinity.Sessions, SessionTTL: f.Affinity.SessionTTL,
	}
}

// listed is the manifest of a fleet whose backends list their tools. It is the same as before where it does not differ.
func (p *planner) listed(f *config.Fleet) *manifest.Manifest {
	if old := p.fleets[f.Capability]; old != nil && old.from.Tools && old.manifest.Class == f.Class {
		return old.manifest
	}
	return &manifest.Manifest{ID: f.Capability, Class: f.Class, Dynamic: true, DiscoveryTool: mcp.DiscoveryTool}
}

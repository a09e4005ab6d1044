// Package config describes MCP servers in the configuration: fleets with protocol: mcp, and their field mcp_server.
package config

import (
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/router"
)

// Protocol is the protocol mcp of the file.
func Protocol() *config.Protocol {
	return &config.Protocol{
		Name: mcp.Name, Field: "mcp_server",
		New:  func() router.Protocol { return new(mcp.Settings) },
		URLs: true, Tools: true,
		Foreign: []string{"dialect", "services", "methods", "artifacts", "artifact_ttl", "manifest", "enforce_credentials"},
		Fleet: func(f *config.Fleet, _ func(string) bool) {
			f.Dialect, f.Affinity.SharedArtifacts = call.Doc, true
		},
	}
}

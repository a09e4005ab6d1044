package cli

import (
	"crypto/tls"
	"fmt"

	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/internal/config"
)

// readMCPHeaders reads the headers of requests to MCP servers.
func (s *settings) readMCPHeaders() (problems []error) {
	s.mcpHeaders = map[string]map[string]string{}
	for i := range s.cfg.Fleets {
		f := &s.cfg.Fleets[i]
		of, is := f.Settings.(*mcp.Settings)
		if !is {
			continue
		}
		headers, err := s.headersFor(of.HeadersFile, of.HeadersEnv, mcp.ReservedHeader)
		if err != nil {
			problems = append(problems, fmt.Errorf("fleet %s: mcp_server: %w", f.Capability, err))
		}
		s.mcpHeaders[f.Capability] = headers
	}
	return problems
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
		Revision: of.Revision,
	}
}

package cli

import (
	"fmt"

	"github.com/capgate/capgate/gateway/upstream/mcp"
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

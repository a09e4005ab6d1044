package settings

import (
	"fmt"

	"github.com/capgate/capgate/gateway/upstream/mcp"
)

// readMCPHeaders reads the headers of requests to MCP servers.
func (s *Settings) readMCPHeaders() (problems []error) {
	s.MCPHeaders = map[string]map[string]string{}
	for i := range s.Config.Fleets {
		f := &s.Config.Fleets[i]
		of, is := f.Settings.(*mcp.Settings)
		if !is {
			continue
		}
		headers, err := s.headersFor(of.HeadersFile, of.HeadersEnv, mcp.ReservedHeader)
		if err != nil {
			problems = append(problems, fmt.Errorf("fleet %s: mcp_server: %w", f.Capability, err))
		}
		s.MCPHeaders[f.Capability] = headers
	}
	return problems
}

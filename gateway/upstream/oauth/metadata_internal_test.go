package oauth

import (
	"net/url"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestCovers: a resource is that of a server with the same origin, with or without the port of its scheme, and with a
// path at or above that of the server.
func TestCovers(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]bool{
		"https://mcp.example.com/mcp":        true,
		"https://MCP.example.com:443/mcp":    true,
		"https://mcp.example.com":            true,
		"https://mcp.example.com:444/mcp":    false,
		"http://mcp.example.com:443/mcp":     false,
		"https://mcp.example.com.evil/mcp":   false,
		"https://mcp.example.com/mc":         false,
		"https://mcp.example.com/mcp/more":   false,
		"https://u@mcp.example.com/mcp":      false,
		"https://mcp.example.com/mcp?tenant": false,
	} {
		for _, server := range []string{"https://mcp.example.com/mcp", "https://mcp.example.com:443/mcp"} {
			u, err := url.Parse(server)
			check.Must(t, err)
			if got := covers(resource, u); got != want {
				t.Errorf("%s at %s: %t", resource, server, got)
			}
		}
	}
}

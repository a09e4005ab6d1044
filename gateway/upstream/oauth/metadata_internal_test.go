package oauth

import (
	"net/url"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestResources: a resource is a server with the same origin, with or without the port of its scheme, and with the same
// path. It may have the server below its path only if it is the resource of the URL of the metadata.
func TestResources(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]bool{
		"https://mcp.example.com/mcp":        true,
		"https://MCP.example.com:443/mcp":    true,
		"https://mcp.example.com/mcp/":       true,
		"https://mcp.example.com":            false,
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
			if got := isResource(resource, u, "https://mcp.example.com/any"); got != want {
				t.Errorf("%s at %s: %t", resource, server, got)
			}
		}
	}
	server, err := url.Parse("https://mcp.example.com/a/mcp")
	check.Must(t, err)
	for _, c := range []struct {
		resource, metadata string
		want               bool
	}{
		{"https://mcp.example.com", "https://mcp.example.com" + wellKnown, true},
		{"https://mcp.example.com/", "https://mcp.example.com" + wellKnown, true},
		{"https://mcp.example.com/a", "https://mcp.example.com" + wellKnown + "/a", true},
		{"https://mcp.example.com/a/mcp", "https://mcp.example.com" + wellKnown, true},
		{"https://mcp.example.com", "https://mcp.example.com" + wellKnown + "/a/mcp", false},
		{"https://mcp.example.com/a", "https://mcp.example.com" + wellKnown, false},
		{"https://mcp.example.com/b", "https://mcp.example.com" + wellKnown + "/b", false},
	} {
		if got := isResource(c.resource, server, c.metadata); got != c.want {
			t.Errorf("%s at %s: %t", c.resource, c.metadata, got)
		}
	}
}

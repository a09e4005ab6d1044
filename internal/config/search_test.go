package config_test

import (
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/config"
)

func TestTenantsThatSearch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                              nil,
		"mcp: {approval_wait: 1s}":      nil,
		"mcp: {search: true}":           {"*"},
		"mcp: {search: false}":          nil,
		"mcp: {search: [acme, globex]}": {"acme", "globex"},
		"mcp: {search: ['*']}":          {"*"},
		"mcp: {search: []}":             nil,
		"mcp: {search: [true, 42]}":     {"true", "42"}, // tenants of these names
	} {
		c, err := config.Parse("f", []byte(text+"\nfleets: [{capability: a, backends: ['b:1']}]\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !slices.Equal(c.MCP.Search, want) {
			t.Errorf("%s: %q", text, c.MCP.Search)
		}
	}
}

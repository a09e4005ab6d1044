package rules

import (
	"testing"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// twoFleets is a catalog with the MCP server files and the capability weather.
type twoFleets struct{ features bool }

func (twoFleets) Capabilities() []string { return []string{"files", "weather"} }

func (c twoFleets) Inspect(id string) (catalog.Listing, bool) {
	return catalog.Listing{Capability: id, Known: true, Features: c.features && id == "files",
		Tools: []catalog.Tool{{Tool: manifest.Tool{Name: "forecast"}}}}, id == "files" || id == "weather"
}

// TestKnownFeatures: rules about prompts and resources are for MCP servers.
func TestKnownFeatures(t *testing.T) {
	t.Parallel()
	for _, features := range []bool{false, true} {
		s := &server{Config: Config{Catalog: twoFleets{features}}}
		for tool, valid := range map[string]bool{"prompts/review": true, "resources/read": true,
			"completion/complete": true, "prompts/a\nb": false, "prompts/": false, "prompt/review": false} {
			for capability, has := range map[string]bool{"files": features, "weather": false, policy.Any: features} {
				var r policy.Rule
				r.Capability, r.Tool = capability, tool
				err := s.known(t.Context(), &r, "")
				if (err == nil) != (valid && has) {
					t.Errorf("%q of %s, features %t: %v", tool, capability, features, err)
				}
			}
		}
	}
}

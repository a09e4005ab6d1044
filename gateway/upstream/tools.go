package upstream

import (
	"encoding/json"
	"fmt"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/manifest"
)

// DiscoveryTool lists the tools of a fleet, like the discovery tool of a manifest. No tool of a backend can have this
// name.
const DiscoveryTool = "tools/list"

// Discovered is a tool in the form of a discovery tool, see manifest.ParseTools.
type Discovered struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	Output      json.RawMessage `json:"output_schema,omitempty"`
	// Extras are further fields that an MCP server lists; nil means none.
	Extras *manifest.Extras `json:"mcp,omitempty"`
}

// Check returns the tool for the catalog, or the reason why the catalog cannot accept it.
func Check(tool Discovered) (*manifest.Tool, error) {
	text, err := plainjson.Marshal([]Discovered{tool})
	if err != nil {
		return nil, err
	}
	tools, err := manifest.ParseTools(text)
	if err != nil {
		return nil, err
	}
	if len(tools) != 1 {
		return nil, fmt.Errorf("%d tools instead of one", len(tools))
	}
	return &tools[0], nil
}

package mcp

import (
	"encoding/json"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/manifest"
)

// listedTool is a tool of tools/list. The SDK's type would add hints that the tool's server omits.
type listedTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	manifest.Extras
}

// toolOf returns a tool in the form of MCP. Before 2026-07-28 a result must be an object, so other results have no
// schema.
func toolOf(capability, name string, t *Tool, stateless bool) *listedTool {
	tool := &listedTool{Name: name, Description: t.Description, InputSchema: objectSchema(t.InputSchema)}
	if promises(t.OutputSchema, stateless) {
		tool.OutputSchema = t.OutputSchema.JSON()
	}
	if t.Extras != nil {
		tool.Extras = *t.Extras
		tool.Meta = withApp(capability, tool.Meta)
	}
	tool.Annotations = hintsOf(t)
	return tool
}

// hintsOf returns the annotations of a tool: those of its MCP server, and those of the configuration; nil means none.
// A read-only tool is not destructive.
func hintsOf(t *Tool) json.RawMessage {
	var said json.RawMessage
	if t.Extras != nil {
		said = t.Extras.Annotations
	}
	if !t.Idempotent && !t.ReadOnly {
		return said
	}
	hints := map[string]json.RawMessage{}
	if said != nil && json.Unmarshal(said, &hints) != nil {
		return said
	}
	add := func(name, value string) {
		if hints[name] == nil {
			hints[name] = json.RawMessage(value)
		}
	}
	if t.Idempotent {
		add("idempotentHint", "true")
	}
	if t.ReadOnly {
		add("readOnlyHint", "true")
		if string(hints["readOnlyHint"]) == "true" {
			add("destructiveHint", "false")
		}
	}
	text, err := plainjson.Marshal(hints)
	if err != nil {
		return said
	}
	return text
}

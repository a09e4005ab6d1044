package manifest

import (
	"encoding/json"
	"fmt"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/toolschema"
)

// MaxDescription is the greatest length of a tool's description, in bytes.
const MaxDescription = 16 << 10

func (p *parser) tool(at strictyaml.Place) {
	var t Tool
	var schema json.RawMessage
	var confirm bool
	var recommended string
	p.Mapping(at, map[string]strictyaml.Field{
		"name":                  p.Text(&t.Name, checkToolName),
		"description":           p.Text(&t.Description, checkDescription),
		"input_schema":          p.schema(&t, &schema),
		"requires_confirmation": p.Boolean(&confirm),
		"recommended_policy":    oneOf(p, &recommended, call.Allow.String(), call.Ask.String(), call.Block.String()),
		"terminal_on_success":   p.Boolean(&t.TerminalOnSuccess),
	})
	t.Recommended, t.Recommends = recommendation(recommended, confirm)
	if t.Name == "" {
		p.Missing(at, "name", "required: the tool_name of its calls")
	}
	if t.Description == "" {
		p.Missing(at, "description", "required: it describes the tool to agents")
	}
	if schema == nil {
		p.Missing(at, "input_schema", "required: the JSON Schema of its arguments, as in {type: object}")
	}
	if line, twice := p.tools[t.Name]; twice && t.Name != "" {
		p.Fail(at.Child("name"), "%s is already in line %d", t.Name, line)
	}
	p.tools[t.Name] = at.Node.Line
	if p.room -= t.size(); p.room < 0 {
		p.Abort(at, "the tools up to this one take too much memory; use fewer tools, or smaller schemas")
		return
	}
	p.manifest.Tools = append(p.manifest.Tools, t)
}

// recommendation returns the recommended verdict: the policy, else ask if confirmation is required, else none, which
// blocks.
func recommendation(policy string, confirm bool) (verdict call.Verdict, recommends bool) {
	if v, ok := call.ParseVerdict(policy); ok {
		return v, true
	}
	if confirm {
		return call.Ask, true
	}
	return call.Block, false
}

func (p *parser) schema(t *Tool, text *json.RawMessage) strictyaml.Field {
	return func(at strictyaml.Place) {
		p.JSON(text)(at)
		if *text == nil {
			return // JSON has reported the error
		}
		var err error
		if t.Schema, err = toolschema.Compile(*text); err != nil {
			p.Fail(at, "%s", err)
		}
	}
}

func checkDescription(v string) string {
	if len(v) > MaxDescription {
		return fmt.Sprintf("%d bytes are too many; a description may have at most %d", len(v), MaxDescription)
	}
	return ""
}

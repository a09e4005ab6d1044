package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/toolschema"
)

// ParseTools parses the answer of a discovery tool: a JSON array of tools, with the rules of a manifest's. Unknown
// fields are ignored, and an invalid recommendation counts as none, as in Selu's orchestrator. One invalid tool makes
// the whole answer invalid: with half of the tools the policies of the others would be lost.
func ParseTools(answer []byte) ([]Tool, error) {
	if len(answer) > MaxBytes {
		return nil, fmt.Errorf("the answer has %d bytes; at most %d are allowed", len(answer), MaxBytes)
	}
	if !bytes.HasPrefix(bytes.TrimLeft(answer, " \t\r\n"), []byte("[")) {
		return nil, errors.New("the answer is not a JSON array of tools")
	}
	if err := strictjson.Check(answer); err != nil {
		return nil, fmt.Errorf("the answer %w", err)
	}
	list, err := listed(answer)
	if err != nil {
		return nil, err
	}
	tools := make([]Tool, 0, len(list))
	seen := make(map[string]bool, len(list))
	for i, found := range list {
		wrong := checkToolName(found.Name)
		switch {
		case wrong != "":
		case seen[found.Name]:
			wrong = "is given twice"
		case found.Description == "":
			wrong = "has no description"
		default:
			wrong = checkDescription(found.Description)
		}
		if wrong != "" {
			return nil, fmt.Errorf("tool %d, %.40q: %s", i+1, found.Name, wrong)
		}
		schema, err := toolschema.CompileLenient(found.Schema)
		if err != nil {
			return nil, fmt.Errorf("tool %d, %q: input_schema %w", i+1, found.Name, err)
		}
		seen[found.Name] = true
		t := Tool{Name: found.Name, Description: found.Description, Schema: schema, TerminalOnSuccess: found.Terminal,
			Extras: extrasOf(found.Extras)}
		if len(found.Output) > 0 && string(found.Output) != "null" {
			if t.Output, err = toolschema.CompileLenient(found.Output); err != nil {
				return nil, fmt.Errorf("tool %d, %q: output_schema %w", i+1, found.Name, err)
			}
		}
		var policy string
		_ = json.Unmarshal(found.Recommended, &policy) // another value is no recommendation
		t.Recommended, t.Recommends = recommendation(policy, found.Confirm)
		tools = append(tools, t)
	}
	return tools, nil
}

// discovered is a tool as the answer has it.
type discovered struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	Output      json.RawMessage `json:"output_schema"`
	Confirm     bool            `json:"requires_confirmation"`
	Recommended json.RawMessage `json:"recommended_policy"`
	Terminal    bool            `json:"terminal_on_success"`
	Extras      json.RawMessage `json:"mcp"` // Extras; another value is none
}

// listed reads an answer that is a JSON array. It reads no tool beyond the limit.
func listed(answer []byte) (list []discovered, _ error) {
	d := json.NewDecoder(bytes.NewReader(answer))
	_, _ = d.Token() // the bracket
	count := 0
	for ; d.More(); count++ {
		var one discovered
		var into any = &one
		if count >= MaxTools { // it is counted alone
			into = new(json.RawMessage)
		}
		if d.Decode(into) != nil {
			return nil, errors.New("the answer is not a JSON array of tools with a name, a description and an " +
				"input_schema")
		}
		if count < MaxTools {
			list = append(list, one)
		}
	}
	if count > MaxTools {
		return nil, fmt.Errorf("the answer has %d tools; a capability may have at most %d", count, MaxTools)
	}
	return list, nil
}

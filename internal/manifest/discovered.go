package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/toolschema"
)

// ParseTools parses the answer of a discovery tool: a JSON array of tools, with the rules of a manifest's. Unknown
// fields are ignored, and an invalid recommendation counts as none, as in Selu's orchestrator. One invalid tool makes
// the whole answer invalid: with half of the tools the policies of the others would be lost.
func ParseTools(answer []byte) ([]Tool, error) {
	if len(answer) > MaxBytes {
		return nil, fmt.Errorf("the answer has %d bytes; at most %d are allowed", len(answer), MaxBytes)
	}
	var list []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"input_schema"`
		Output      json.RawMessage `json:"output_schema"`
		Confirm     bool            `json:"requires_confirmation"`
		Recommended any             `json:"recommended_policy"`
		Terminal    bool            `json:"terminal_on_success"`
	}
	if !bytes.HasPrefix(bytes.TrimLeft(answer, " \t\r\n"), []byte("[")) {
		return nil, errors.New("the answer is not a JSON array of tools")
	}
	if _, err := toolschema.Decode(answer); err != nil {
		return nil, fmt.Errorf("the answer %w", err)
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, errors.New("the answer is not a JSON array of tools with a name, a description and an input_schema")
	}
	if len(list) > MaxTools {
		return nil, fmt.Errorf("the answer has %d tools; a capability may have at most %d", len(list), MaxTools)
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
		schema, err := toolschema.Compile(found.Schema)
		if err != nil {
			return nil, fmt.Errorf("tool %d, %q: input_schema %w", i+1, found.Name, err)
		}
		seen[found.Name] = true
		t := Tool{Name: found.Name, Description: found.Description, Schema: schema, TerminalOnSuccess: found.Terminal}
		if len(found.Output) > 0 && string(found.Output) != "null" {
			if t.Output, err = toolschema.Compile(found.Output); err != nil {
				return nil, fmt.Errorf("tool %d, %q: output_schema %w", i+1, found.Name, err)
			}
		}
		policy, _ := found.Recommended.(string)
		t.Recommended, t.Recommends = recommendation(policy, found.Confirm)
		tools = append(tools, t)
	}
	return tools, nil
}

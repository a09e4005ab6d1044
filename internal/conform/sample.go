package conform

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
)

// errNoTool is the error if no tool may be called.
var errNoTool = errors.New("no tool may be called: --tool NAME --args JSON names a harmless call, --call-tools finds " +
	"one")

// errNoCall is the error if no harmless call is known.
var errNoCall = errors.New("no harmless call is known: --tool NAME --args JSON gives one, or --manifest FILE")

// sample returns a harmless call: a tool whose author recommends to allow it, with the examples of its schema.
func sample(tools []manifest.Tool) (Call, error) {
	for i := range tools {
		t := &tools[i]
		if t.Recommended != call.Allow {
			continue
		}
		if args, ok := example(t.Schema.JSON()); ok && t.Schema.Check(context.Background(), args) == nil {
			return Call{Tool: t.Name, Args: args}, nil
		}
	}
	if len(tools) > 0 {
		return Call{}, errors.New("no tool that its author recommends to allow has examples of all that it " +
			"requires; --tool NAME --args JSON gives a harmless call")
	}
	return Call{}, errNoCall
}

// example composes the required arguments from examples, default, const and enum.
func example(schema []byte) (args []byte, ok bool) {
	var object struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Examples []json.RawMessage `json:"examples"`
			Default  json.RawMessage   `json:"default"`
			Const    json.RawMessage   `json:"const"`
			Enum     []json.RawMessage `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &object) != nil {
		return nil, false
	}
	values := map[string]json.RawMessage{}
	for _, name := range object.Required {
		p := object.Properties[name]
		switch {
		case len(p.Examples) > 0:
			values[name] = p.Examples[0]
		case p.Default != nil:
			values[name] = p.Default
		case p.Const != nil:
			values[name] = p.Const
		case len(p.Enum) > 0:
			values[name] = p.Enum[0]
		default:
			return nil, false
		}
	}
	args, err := json.Marshal(values)
	return args, err == nil
}

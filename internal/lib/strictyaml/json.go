package strictyaml

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v4"
)

// JSON reads any value that JSON can hold too, and stores its JSON in to. Names are in the order of the file.
func (r *Reader) JSON(to *json.RawMessage) Field {
	return func(at Place) {
		var out bytes.Buffer
		before := len(r.Errors)
		r.writeJSON(at, &out)
		if len(r.Errors) == before && !r.stopped {
			*to = out.Bytes()
		}
	}
}

func (r *Reader) writeJSON(at Place, out *bytes.Buffer) {
	at, ok := r.resolve(at)
	if !ok {
		return
	}
	switch at.Node.Kind {
	case yaml.MappingNode:
		r.writeObject(at, out)
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, n := range at.Node.Content {
			if r.stopped {
				return
			}
			if i > 0 {
				out.WriteByte(',')
			}
			r.writeJSON(Place{Path: nth(at.Path, i), Node: n}, out)
		}
		out.WriteByte(']')
	default:
		r.writeScalar(at, out)
	}
}

func (r *Reader) writeObject(at Place, out *bytes.Buffer) {
	out.WriteByte('{')
	seen := make(map[string]int, len(at.Node.Content)/2)
	for i := 0; i+1 < len(at.Node.Content) && !r.stopped; i += 2 {
		key := at.Node.Content[i]
		here := Place{Path: join(at.Path, key.Value), Node: key}
		r.nodes += len(key.Value) / valueBytes
		switch first, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			r.Fail(here, "a name in JSON must be a string")
			return
		case twice:
			r.Fail(here, "given twice; the first is in line %d", first)
			return
		}
		seen[key.Value] = key.Line
		if i > 0 {
			out.WriteByte(',')
		}
		writeString(key.Value, out)
		out.WriteByte(':')
		r.writeJSON(Place{Path: here.Path, Node: at.Node.Content[i+1]}, out)
	}
	out.WriteByte('}')
}

// writeScalar writes the value of a YAML scalar. Numbers that JSON can hold keep their digits. Dates become
// strings, which is the only useful meaning in a schema.
func (r *Reader) writeScalar(at Place, out *bytes.Buffer) {
	n := at.Node
	switch n.Tag {
	case "!!null":
		out.WriteString("null")
	case "!!bool", "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			out.WriteString(n.Value)
			return
		}
		var v any
		if err := n.Decode(&v); err != nil {
			r.Fail(at, "%q cannot be read", n.Value)
			return
		}
		text, err := json.Marshal(v) // 0x10, +1, TRUE; fails for .nan and .inf
		if err != nil {
			r.Fail(at, "%s is not a JSON number", n.Value)
			return
		}
		out.Write(text)
	default:
		writeString(n.Value, out)
	}
}

func writeString(s string, out *bytes.Buffer) {
	text, _ := json.Marshal(s) // never fails for a string
	out.Write(text)
}

// Package plainjson encodes JSON without the escapes that only HTML needs.
package plainjson

import (
	"bytes"
	"encoding/json"
)

// Marshal returns v as JSON on one line, without the end of the line.
func Marshal(v any) ([]byte, error) { return Append(nil, v) }

// Append appends what Marshal returns to text. If v has no JSON, it returns text.
func Append(text []byte, v any) ([]byte, error) {
	all, err := encode(text, v, "")
	if err != nil {
		return text, err
	}
	return all[:len(all)-1], nil
}

// Indent returns v as indented JSON, with the end of the last line.
func Indent(v any) ([]byte, error) { return encode(nil, v, "  ") }

func encode(text []byte, v any, indent string) ([]byte, error) {
	out := bytes.NewBuffer(text)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return out.Bytes(), err
}

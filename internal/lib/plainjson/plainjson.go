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
	out := bytes.NewBuffer(text)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return text, err
	}
	return out.Bytes()[:out.Len()-1], nil
}

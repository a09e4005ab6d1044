package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// writer writes a response of JSON-RPC.
type writer struct {
	text []byte
	err  error
}

// begin begins a response to the request with an id.
func (w *writer) begin(id []byte) {
	w.text = append(append(w.text, `{"jsonrpc":"2.0","id":`...), id...)
}

// member writes a further member of an object.
func (w *writer) member(name string, value any) {
	w.text = append(append(append(w.text, `,"`...), name...), `":`...)
	w.value(value)
}

func (w *writer) value(value any) {
	out := bytes.NewBuffer(w.text)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		w.err = fmt.Errorf("encode a response: %w", err)
		return
	}
	w.text = out.Bytes()[:out.Len()-1] // without the encoder's end of a line: clients may read a message as one
}

// result writes a result. about is the JSON of its _meta, unless it has another one.
func (w *writer) result(r *callResult, about []byte) {
	w.text = append(w.text, `{"content":`...)
	w.content(r)
	if len(r.structured) > 0 {
		w.text = append(append(w.text, `,"structuredContent":`...), r.structured...)
	}
	if r.failed {
		w.text = append(w.text, `,"isError":true`...)
	}
	if r.stateless {
		w.text = append(w.text, `,"resultType":"complete"`...)
	}
	switch {
	case len(r.Meta) > 0:
		w.member("_meta", r.Meta)
	case len(about) > 0:
		w.text = append(append(w.text, `,"_meta":`...), about...)
	}
	w.text = append(w.text, '}')
}

// content writes the content of a result.
func (w *writer) content(r *callResult) {
	w.text = append(w.text, '[')
	begun := len(w.text)
	next := func() {
		if len(w.text) > begun {
			w.text = append(w.text, ',')
		}
	}
	if len(r.text) > 0 {
		w.text = append(strictjson.AppendString(append(w.text, `{"type":"text","text":`...), r.text), '}')
	}
	if len(r.items) > 0 {
		next()
		w.text = append(w.text, r.items...)
	}
	for _, c := range r.more {
		next()
		w.value(c)
	}
	w.text = append(w.text, ']')
}

// MarshalJSON implements json.Marshaler, for the SDK and for tasks.
func (r *callResult) MarshalJSON() ([]byte, error) {
	var w writer
	w.result(r, nil)
	return w.text, w.err
}

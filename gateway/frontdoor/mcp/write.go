package mcp

import (
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// writer writes a JSON-RPC response. A long response is sent while it is encoded, because control characters make it
// up to six times as long as the result.
type writer struct {
	text []byte
	err  error
	send func(text []byte) error // sends the next part, which it may modify; nil means text is the whole response
	sent bool                    // a part was sent, and text is the rest
	gone bool                    // the client has disconnected
}

const (
	writeChunk = 16 << 10 // bytes encoded at once
	writeFrom  = 32 << 10 // bytes from which a part is sent
)

// spill sends the text if it is long enough.
func (w *writer) spill() {
	if w.send != nil && len(w.text) >= writeFrom {
		w.flush()
	}
}

// flush sends the text.
func (w *writer) flush() {
	w.sent = true
	w.gone = w.gone || w.send(w.text) != nil
	w.text = w.text[:0]
}

// begin starts the response to the request with an id.
func (w *writer) begin(id []byte) {
	w.text = append(append(w.text, `{"jsonrpc":"2.0","id":`...), id...)
}

// member appends a further member of an object.
func (w *writer) member(name string, value any) {
	w.text = append(append(append(w.text, `,"`...), name...), `":`...)
	w.value(value)
}

func (w *writer) value(value any) {
	var err error
	if w.text, err = plainjson.Append(w.text, value); err != nil {
		w.err = fmt.Errorf("encode a response: %w", err)
	}
}

// raw appends JSON.
func (w *writer) raw(text []byte) {
	for ; len(text) > writeChunk && w.send != nil; text = text[writeChunk:] {
		w.text = append(w.text, text[:writeChunk]...)
		w.spill()
	}
	w.text = append(w.text, text...)
}

// textContent appends a text content.
func (w *writer) textContent(text []byte) {
	w.text = append(w.text, `{"type":"text","text":"`...)
	for len(text) > writeChunk && w.send != nil {
		chunk := untrusted.Truncate(text, writeChunk)
		w.text = strictjson.AppendEscaped(w.text, chunk)
		text = text[len(chunk):]
		w.spill()
	}
	w.text = append(strictjson.AppendEscaped(w.text, text), `"}`...)
}

// result appends a result. about is the JSON of its _meta, unless it has its own.
func (w *writer) result(r *callResult, about []byte) {
	w.text = append(w.text, `{"content":`...)
	w.content(r)
	if len(r.structured) > 0 {
		w.text = append(w.text, `,"structuredContent":`...)
		w.raw(r.structured)
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

// content appends the content of a result.
func (w *writer) content(r *callResult) {
	w.text = append(w.text, '[')
	first := true
	next := func() {
		if !first {
			w.text = append(w.text, ',')
		}
		first = false
	}
	if len(r.text) > 0 {
		next()
		w.textContent(r.text)
	}
	if len(r.items) > 0 {
		next()
		w.raw(r.items)
	}
	for _, c := range r.more {
		next()
		if t, ok := c.(*sdk.TextContent); ok && t.Meta == nil && t.Annotations == nil {
			w.textContent([]byte(t.Text))
			continue
		}
		w.value(c)
	}
	w.text = append(w.text, ']')
}

// size returns an upper bound of the result's encoded length, which is close to it.
func (r *callResult) size() int {
	n := escapedSize(r.text) + len(r.items) + len(r.structured) + writeChunk
	for _, value := range r.Meta {
		if text, ok := value.(json.RawMessage); ok {
			n += len(text)
		}
	}
	for _, c := range r.more {
		switch c := c.(type) {
		case *sdk.TextContent:
			n += escapedSize([]byte(c.Text))
		case *sdk.EmbeddedResource:
			n += 2 * len(c.Resource.Blob)
		}
	}
	return n
}

// isShort reports whether the encoded result is shorter than a part, however it is escaped.
func (r *callResult) isShort() bool {
	const longest = 6 // bytes of an escaped one
	return len(r.more) == 0 && len(r.Meta) == 0 && longest*len(r.text)+len(r.items)+len(r.structured) < writeChunk
}

// escapedSize returns the length of a text as a JSON string.
func escapedSize(text []byte) int {
	n := len(text)
	for _, c := range text {
		switch {
		case c < ' ':
			n += 5
		case c == '"' || c == '\\':
			n++
		}
	}
	return n
}

// MarshalJSON implements json.Marshaler, for the SDK and for tasks.
func (r *callResult) MarshalJSON() ([]byte, error) {
	var w writer
	w.result(r, nil)
	return w.text, w.err
}

package connect

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/capgate/capgate/internal/lib/response"
)

// The base64 form of gRPC-Web is for browsers that give pages nothing but text (gRPC-Web, "Text-encoded").

// textBody decodes base64, which may have padding inside, because each message may be encoded separately.
type textBody struct {
	io.Reader
	ready []byte // decoded bytes not yet read
	rest  []byte // partial group of four characters
	err   error
	buf   [3 << 10]byte
}

// Read implements io.Reader.
func (b *textBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 && b.err == nil {
		b.fill()
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, b.err
}

func (b *textBody) fill() {
	var in [4 << 10]byte
	n := copy(in[:], b.rest)
	m, err := b.Reader.Read(in[n:])
	n += m
	b.ready = b.buf[:0]
	whole := n &^ 3
	for i := 0; i < whole; i += 4 {
		var group [3]byte
		k, wrong := base64.StdEncoding.Decode(group[:], in[i:i+4])
		if wrong != nil {
			b.err = errors.New("the body is not base64")
			return
		}
		b.ready = append(b.ready, group[:k]...)
	}
	b.rest = append(b.rest[:0], in[whole:n]...)
	if err == io.EOF && len(b.rest) > 0 {
		err = io.ErrUnexpectedEOF
	}
	b.err = err
}

// textWriter encodes base64. Flushed bytes can be decoded.
type textWriter struct {
	response.Writer
	rest []byte // partial group of three bytes
}

func newTextWriter(w http.ResponseWriter) *textWriter {
	t := &textWriter{}
	t.ResponseWriter, t.Begin, t.Flushing = w, t.begin, t.flush
	return t
}

// begin sets the content type of text.
func (w *textWriter) begin() {
	if plain, ok := strings.CutPrefix(w.Header().Get("Content-Type"), typeWeb); ok {
		w.Header().Set("Content-Type", typeWebText+plain)
	}
}

// Write implements io.Writer.
func (w *textWriter) Write(p []byte) (int, error) {
	w.Start()
	for rest := p; len(rest) > 0; { // in parts, so that the text of a long message is not held whole
		n := min(len(rest), textPart)
		all := append(w.rest, rest[:n]...)
		whole := len(all) - len(all)%3
		w.rest = append([]byte(nil), all[whole:]...)
		if err := w.encode(all[:whole]); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// textPart is the number of bytes that are encoded at once.
const textPart = 48 << 10

// flush writes a partial group.
func (w *textWriter) flush() {
	if w.encode(w.rest) == nil { // otherwise the next write fails too
		w.rest = nil
	}
}

func (w *textWriter) encode(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := w.ResponseWriter.Write([]byte(base64.StdEncoding.EncodeToString(p)))
	return err
}

package mcp

import (
	"bytes"
	"io"
)

// errTooMuch returns the error of a response above the size limit.
func errTooMuch(most int) error {
	return violates("the MCP server's response is larger than %d bytes", most)
}

// limited is a body that ends with an error if it exceeds its limit.
type limited struct {
	body io.ReadCloser
	left int
	read int
	ex   *exchange
}

// Read implements io.Reader.
func (b *limited) Read(p []byte) (int, error) {
	if len(p) > b.left-b.read+1 {
		p = p[:b.left-b.read+1]
	}
	n, err := b.body.Read(p)
	if b.read += n; b.read > b.left {
		return 0, b.fail(errTooMuch(b.left))
	}
	return n, err
}

func (b *limited) fail(err error) error {
	if b.ex != nil {
		b.ex.fail(err)
	}
	return err
}

// Close implements io.Closer.
func (b *limited) Close() error { return b.body.Close() }

// whole is a body with one message, which is validated before the SDK reads it.
type whole struct {
	limited
	of      *transport
	id      string        // of the request; empty means none
	lenient bool          // only a JSON-RPC error is accepted
	text    *bytes.Reader // nil means not read yet
}

// Read implements io.Reader.
func (b *whole) Read(p []byte) (int, error) {
	if b.text == nil {
		text, err := b.message()
		if err != nil {
			return 0, err
		}
		b.text = bytes.NewReader(text)
	}
	return b.text.Read(p)
}

// message reads the message. If that fails, a tracked request ends, and nothing else.
func (b *whole) message() ([]byte, error) {
	if b.lenient {
		return b.refusal(), nil
	}
	text, err := io.ReadAll(&b.limited)
	if err == nil && len(bytes.TrimSpace(text)) > 0 {
		var pass []byte
		if pass, _, err = b.of.receive(text, b.ex, b.id, true); err == nil {
			return pass, nil
		}
		err = b.fail(err)
	}
	if b.ex == nil {
		return text, err
	}
	return b.ex.unanswered(), nil
}

// refusal reads the JSON-RPC error in a response with an HTTP error status, if there is one.
func (b *whole) refusal() []byte {
	text, err := io.ReadAll(io.LimitReader(b.body, int64(b.left)))
	if err == nil {
		m, wrong := parse(text)
		if wrong == nil && m.Error != nil {
			text, err = m.answering(b.id, text)
		}
		if wrong == nil && err == nil && m.Error != nil && b.ex.response(m) == nil {
			return text
		}
	}
	return b.ex.unanswered()
}

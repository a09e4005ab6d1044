package mcp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// errTooMuch is the end of a response that is larger than it may be.
func errTooMuch(most int) error {
	return violates("the MCP server's response is larger than %d bytes", most)
}

// limited is a body that ends with an error where it is too long.
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

// whole is a body with one message, which is read before the SDK sees it.
type whole struct {
	limited
	of      *transport
	lenient bool          // only an error of JSON-RPC is taken from it
	text    *bytes.Reader // nil: it was not read yet
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

// message reads the message. If that fails, a noted request ends, and nothing else.
func (b *whole) message() ([]byte, error) {
	if b.lenient {
		return b.refusal(), nil
	}
	text, err := io.ReadAll(&b.limited)
	if err == nil && len(bytes.TrimSpace(text)) > 0 {
		if _, err = b.of.receive(text, b.ex, true); err == nil {
			return text, nil
		}
		err = b.fail(err)
	}
	if b.ex == nil {
		return text, err
	}
	return b.ex.unanswered(), nil
}

// refusal reads the error of JSON-RPC that comes with a status of HTTP, if there is one.
func (b *whole) refusal() []byte {
	text, err := io.ReadAll(io.LimitReader(b.body, int64(b.left)))
	if err == nil {
		m, wrong := parse(text)
		if wrong == nil && m.Error != nil && b.ex.response(m, true) == nil {
			return text
		}
	}
	return b.ex.unanswered()
}

// events is a body with events (WHATWG HTML §9.2), each of which is read before the SDK sees it.
type events struct {
	of    *transport
	body  io.ReadCloser
	in    *bufio.Reader
	most  int    // bytes of an event
	total int    // bytes of all; -1: any number
	pace  *paced // of what no request asked for; nil with ex, as total bounds that
	ready []byte
	ex    *exchange
}

const maxEventID = 1 << 10 // bytes of the id of an event; without one, a response cannot be resumed

// Read implements io.Reader.
func (b *events) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		event, err := b.next()
		if err != nil {
			return 0, err
		}
		b.ready = event
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *events) Close() error { return b.body.Close() }

// next reads one event, and returns it as far as the SDK has a use for it.
func (b *events) next() ([]byte, error) {
	var data, out []byte
	name, lines, size := "", 0, 0
	for {
		line, err := b.line(size)
		if err != nil {
			return nil, err
		}
		size += len(line)
		if err := b.pace.take(len(line)); err != nil {
			return nil, err
		}
		text := bytes.TrimRight(line, "\r\n")
		if len(text) == 0 {
			break
		}
		field, value, _ := bytes.Cut(text, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "id", "retry":
			if len(value) <= maxEventID {
				out = fmt.Appendf(out, "%s: %s\n", field, value)
			}
		case "data":
			if lines++; lines > 1 {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
	}
	if len(data) > 0 && (name == "" || name == "message") {
		pass, err := b.of.receive(data, b.ex, false)
		if err != nil {
			return nil, b.fail(err)
		}
		if pass {
			for line := range bytes.SplitSeq(data, []byte("\n")) {
				out = append(append(append(out, "data: "...), line...), '\n')
			}
		}
	}
	if err := b.pace.take(perEvent); err != nil {
		return nil, err
	}
	if len(out) > 0 {
		out = append(out, '\n')
	}
	return out, nil
}

// line reads one line of an event of which there are have bytes.
func (b *events) line(have int) ([]byte, error) {
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		line = append(line, part...)
		if b.total >= 0 {
			if b.total -= len(part); b.total < 0 {
				return nil, b.fail(errTooMuch(maxStreamSize * b.most))
			}
		}
		if have+len(line) > b.most {
			return nil, b.fail(errTooMuch(b.most))
		}
		if err != bufio.ErrBufferFull { //nolint:errorlint // as ReadSlice documents it
			return line, err
		}
	}
}

func (b *events) fail(err error) error {
	if b.ex != nil {
		b.ex.fail(err)
	}
	_ = b.body.Close() // nothing more of it is wanted
	return err
}

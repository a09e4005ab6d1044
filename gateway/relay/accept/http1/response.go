package http1

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// response is the http.ResponseWriter of a request. It does the same as that of net/http's server: it buffers the start
// of the body, so that a short response has a length, and adds type and date. It cannot be hijacked, and ignores a
// Transfer-Encoding of the handler.
type response struct {
	conn   *conn
	body   *body // of the request
	header http.Header
	method string
	status int
	over   bool // the handler has returned
	wrote  bool // the status is set
	sent   bool // the head was sent
	chunks bool // the body is sent in chunks
	last   bool // the connection closes after the response
	duplex bool // the body of the request may be read during the response

	held       []byte // of the body, before the head was sent
	declared   int64  // length of the body; -1 means unknown
	written    int64  // bytes of the body
	trailers   []string
	connection []string // the Connection header

	typed, dated, encoded, trailed bool // headers that are present
}

// heldBytes is the number of bytes of a response that are buffered before its head is sent.
const heldBytes = 2 << 10

var errReturned = errors.New("http1: the handler of the request has returned")

func (w *response) init(c *conn, h *head, b *body) {
	w.conn, w.body, w.method, w.held, w.declared = c, b, h.method, c.buf.held[:0], -1
	w.header = http.Header{}
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	switch {
	case w.wrote || w.over:
	case status < 100 || status > 999:
		panic(fmt.Sprintf("http1: invalid status %d", status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.inform(status)
	default:
		w.wrote, w.status = true, status
		out := appendStatus(w.conn.buf.out.AvailableBuffer(), status)
		for name, values := range w.header {
			if !w.own(name, values) {
				out = appendFields(out, name, values)
			}
		}
		_, _ = w.conn.buf.out.Write(out) // Flush returns the error
	}
}

// inform sends an informational response.
func (w *response) inform(status int) {
	out := appendStatus(w.conn.buf.out.AvailableBuffer(), status)
	for name, values := range w.header {
		if name != "Content-Length" && name != "Transfer-Encoding" {
			out = appendFields(out, name, values)
		}
	}
	_, _ = w.conn.buf.out.Write(append(out, "\r\n"...))
	_ = w.conn.buf.out.Flush() // the next write returns the error
}

// Write implements io.Writer.
func (w *response) Write(p []byte) (int, error) {
	if w.over {
		return 0, errReturned
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if !HasBody(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.declared >= 0 && w.written > w.declared {
		return 0, http.ErrContentLength
	}
	if len(w.held)+len(p) <= heldBytes {
		w.held = append(w.held, p...)
		return len(p), nil
	}
	if !w.sent {
		w.sendHead(append(w.held, p[:min(len(p), heldBytes-len(w.held))]...), false)
	}
	_ = w.send(w.held) // errors are sticky
	w.held = w.held[:0]
	if err := w.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError implements the interface of http.ResponseController.
func (w *response) FlushError() error {
	if w.over {
		return errReturned
	}
	w.sendHeld(false)
	return w.conn.buf.out.Flush()
}

// sendHeld sends the head and what is held of the body.
func (w *response) sendHeld(done bool) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if !w.sent {
		w.sendHead(w.held, done)
	}
	if len(w.held) > 0 {
		_ = w.send(w.held) // Flush returns the error
		w.held = w.held[:0]
	}
}

// finish ends the response.
func (w *response) finish() {
	w.sendHeld(true)
	out := w.conn.buf.out
	if w.chunks {
		_, _ = out.WriteString("0\r\n")
		_, _ = out.Write(append(w.appendTrailers(out.AvailableBuffer()), "\r\n"...))
	}
	if out.Flush() == nil && !w.last && w.duplex {
		w.body.drain()
	}
	if w.body.left.Load() > 0 {
		w.conn.nc.Unread()
	}
}

// send sends bytes of the body after the head.
func (w *response) send(p []byte) error {
	out := w.conn.buf.out
	switch {
	case w.method == http.MethodHead || len(p) == 0: // an empty chunk would be the last
		return nil
	case !w.chunks:
		_, err := out.Write(p)
		return err
	}
	_, _ = out.Write(append(strconv.AppendInt(out.AvailableBuffer(), int64(len(p)), 16), "\r\n"...))
	_, _ = out.Write(p)
	_, err := out.WriteString("\r\n") // errors are sticky
	return err
}

// reusable reports whether the client knows where the response ends, and may send another request.
func (w *response) reusable() bool {
	return !w.last && (w.method == http.MethodHead || w.declared < 0 || !HasBody(w.status) || w.declared == w.written)
}

// HasBody reports whether a response with such a status may have a body (RFC 9110 §6.4.1).
func HasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// SetReadDeadline implements the interface of http.ResponseController.
func (w *response) SetReadDeadline(by time.Time) error { return w.conn.nc.SetReadDeadline(by) }

// SetWriteDeadline implements the interface of http.ResponseController.
func (w *response) SetWriteDeadline(by time.Time) error { return w.conn.nc.SetWriteDeadline(by) }

// EnableFullDuplex implements the interface of http.ResponseController.
func (w *response) EnableFullDuplex() error {
	w.duplex = true
	return nil
}

// appendTrailers appends the handler's trailers: those announced, and those with http.TrailerPrefix.
func (w *response) appendTrailers(out []byte) []byte {
	for key, values := range w.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			out = appendFields(out, name, values)
		}
	}
	for _, name := range w.trailers {
		out = appendFields(out, name, w.header[name])
	}
	return out
}

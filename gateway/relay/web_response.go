package relay

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept/http1"
	"github.com/capgate/capgate/gateway/relay/hpack"
)

// webWriter is the http.ResponseWriter of a request. It does the same as that of net/http's own server: it buffers the
// start of the body, so that a short response has a length, and adds type and date. Trailers are those announced by
// the Trailer header, or with http.TrailerPrefix.
type webWriter struct {
	end      *webEnd
	header   http.Header
	over     bool // the handler has returned
	wrote    bool // the status is set
	sent     bool // the status and header were sent
	status   int
	fields   []hpack.Field // the header at the time of the status
	few      *webFields    // memory for fields, and before that for the request's; until the head is sent
	length   string        // length of the body in the header; empty means not set
	declared int64         // parsed length; -1 means unknown
	written  int64         // bytes of the body
	pending  int           // of these, bytes not yet posted
	trailers []string

	sized, typed, dated, encoded bool // headers that are present
}

// webFields is memory for the header of a request, and then for that of its response. It is reused when the response
// has begun, because some responses last long.
type webFields [12]hpack.Field

var webFieldsPool = sync.Pool{New: func() any { return new(webFields) }}

// releaseFields releases the memory of a header that was sent. The writer does not use it after that.
func (e *webEnd) releaseFields() {
	e.mu.Lock()
	few := e.writer.few
	e.writer.few, e.writer.fields, e.reply.head.fields = nil, nil, nil
	e.mu.Unlock()
	if few != nil {
		clear(few[:])
		webFieldsPool.Put(few)
	}
}

// webBuffer is the number of bytes of a response that are buffered before a flush.
const webBuffer = 4 << 10

var (
	errStreamOver      = errors.New("relay: the stream has ended")
	errHandlerReturned = errors.New("relay: the handler of the request has returned")
)

// Header implements http.ResponseWriter.
func (w *webWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *webWriter) WriteHeader(status int) {
	switch {
	case w.wrote || w.over:
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("relay: invalid status %d", status))
	case status < 200:
		w.end.inform(webHead{status: status, fields: w.collect(nil, true)})
		return
	}
	w.wrote, w.status, w.declared = true, status, -1
	w.fields = w.collect(w.few[:0], false)
}

// collect appends the header to fields.
func (w *webWriter) collect(fields []hpack.Field, early bool) []hpack.Field {
	for key, values := range w.header {
		if strings.HasPrefix(key, http.TrailerPrefix) || w.isOwn(key, values, early) {
			continue
		}
		name := lowerName(key)
		for _, v := range values {
			fields = appendField(fields, name, v)
		}
	}
	return fields
}

// isOwn processes a header that concerns the writer. It returns true if the header must not be sent unchanged.
func (w *webWriter) isOwn(key string, values []string, early bool) bool {
	switch key {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade": // RFC 9113 §8.2.2
		return true
	case "Content-Length":
		if !early {
			w.setLength(values)
		}
		return true
	}
	if early {
		return false
	}
	switch key {
	case "Content-Type":
		w.typed = true
	case "Date":
		w.dated = true
	case "Content-Encoding":
		w.encoded = len(values) > 0 && values[0] != ""
	case "Trailer":
		for _, list := range values {
			for name := range strings.SplitSeq(list, ",") {
				w.announce(strings.TrimSpace(name))
			}
		}
	}
	return false
}

func (w *webWriter) setLength(values []string) {
	if w.sized = len(values) != 1 || values[0] != ""; len(values) == 0 || values[0] == "" {
		return
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	if w.sized = err == nil; w.sized {
		w.length, w.declared = values[0], int64(n)
	}
}

// announce records the name of a trailer that the handler may set.
func (w *webWriter) announce(name string) {
	name = http.CanonicalHeaderKey(name)
	if name == "" || !validTrailer(strings.ToLower(name)) {
		return
	}
	for _, t := range w.trailers {
		if t == name {
			return
		}
	}
	w.trailers = append(w.trailers, name)
}

// appendField appends a field, unless it would break the response.
func appendField(fields []hpack.Field, name, value string) []hpack.Field {
	if n := len(value); n > 0 && (value[0] <= ' ' || value[n-1] <= ' ') {
		value = strings.Trim(value, " \t")
	}
	if tag := classify(name, value); tag&(tagBad|tagPseudo) == 0 {
		return append(fields, hpack.Field{Name: name, Value: value, Tag: tag})
	}
	return fields
}

// Write implements io.Writer.
func (w *webWriter) Write(p []byte) (int, error) {
	if w.over {
		return 0, errHandlerReturned
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if !http1.HasBody(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.declared >= 0 && w.written > w.declared {
		return 0, http.ErrContentLength
	}
	n := len(p)
	if w.sent && w.end.method == http.MethodHead {
		return n, nil
	}
	if w.pending+n <= webBuffer {
		kept, err := w.end.hold(p)
		if kept || err != nil {
			w.pending += n
			return n, err
		}
	}
	if err := w.flush(p, false); err != nil {
		return 0, err
	}
	return n, nil
}

// Flush implements http.Flusher.
func (w *webWriter) Flush() { _ = w.FlushError() }

// FlushError implements the interface of http.ResponseController.
func (w *webWriter) FlushError() error {
	if w.over {
		return errHandlerReturned
	}
	return w.flush(nil, false)
}

// finish ends the response.
func (w *webWriter) finish() {
	_ = w.flush(nil, true) // the client may have disconnected
	w.over = true
}

// flush posts the head, once, the buffered bytes, and p.
func (w *webWriter) flush(p []byte, done bool) error {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	var out webOut
	if done {
		out.last, out.trailer = true, w.trailer()
	}
	headOnly := w.end.method == http.MethodHead
	if !w.sent {
		w.sent = true
		w.complete(p, done)
		out.headed, out.head = true, webHead{w.status, w.fields}
		out.bare = done && len(out.trailer) == 0 && (headOnly || w.pending+len(p) == 0)
	}
	if headOnly {
		p, out.dropped = nil, w.pending
	}
	w.pending = 0
	return w.end.give(&out, p)
}

// complete adds missing headers to the head.
func (w *webWriter) complete(p []byte, done bool) {
	size := w.pending + len(p)
	switch headOnly := w.end.method == http.MethodHead; {
	case w.length != "":
		w.fields = appendField(w.fields, "content-length", w.length)
	case !w.sized && done && http1.HasBody(w.status) && (size > 0 || !headOnly):
		w.fields = appendField(w.fields, "content-length", strconv.Itoa(size))
	}
	if !w.typed && !w.encoded && http1.HasBody(w.status) && size > 0 {
		if w.pending > 0 {
			p = append(w.end.held(), p...)
		}
		w.fields = appendField(w.fields, "content-type", http.DetectContentType(p))
	}
	if !w.dated {
		w.fields = appendField(w.fields, "date", w.end.sh.relay.date.Now())
	}
}

// trailer returns the fields of the handler's trailers.
func (w *webWriter) trailer() []hpack.Field {
	for key := range w.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			w.announce(name)
		}
	}
	var fields []hpack.Field
	for _, t := range w.trailers {
		values, prefixed := w.header[http.TrailerPrefix+t]
		if !prefixed {
			values = w.header[t]
		}
		for _, v := range values {
			fields = appendField(fields, lowerName(t), v)
		}
	}
	return fields
}

// SetReadDeadline implements the interface of http.ResponseController.
func (w *webWriter) SetReadDeadline(by time.Time) error {
	e := w.end
	if !by.IsZero() && !by.After(time.Now()) {
		e.stopReading(os.ErrDeadlineExceeded)
		return nil
	}
	e.mu.Lock()
	e.readBy = by
	waits, readable := e.reads, e.readable
	e.mu.Unlock()
	if waits {
		wake(readable)
	}
	return nil
}

// SetWriteDeadline implements the interface of http.ResponseController. A response that is not read in time is
// aborted.
func (w *webWriter) SetWriteDeadline(by time.Time) error {
	e := w.end
	if !by.IsZero() && !by.After(time.Now()) {
		e.reset(errInternal, os.ErrDeadlineExceeded)
		return nil
	}
	e.mu.Lock()
	e.writeBy = by
	waits, writable := e.writes, e.writable
	e.mu.Unlock()
	if waits {
		wake(writable)
	}
	return nil
}

// EnableFullDuplex implements the interface of http.ResponseController. HTTP/2 is always full-duplex.
func (w *webWriter) EnableFullDuplex() error { return nil }

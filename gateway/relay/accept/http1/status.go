package http1

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// own processes a header that concerns the writer. It returns true if the header must not be sent unchanged.
func (w *response) own(name string, values []string) bool {
	switch name {
	case "Connection":
		w.connection = values
		return true
	case "Transfer-Encoding":
		return true
	case "Content-Length":
		w.setLength(values)
		return true
	case "Content-Type":
		w.typed = true
		return w.status == http.StatusNotModified
	case "Date":
		w.dated = true
	case "Content-Encoding":
		w.encoded = len(values) > 0 && values[0] != ""
	case "Trailer":
		w.trailed = true
		for _, list := range values {
			for name := range strings.SplitSeq(list, ",") {
				w.announce(http.CanonicalHeaderKey(textproto.TrimString(name)))
			}
		}
	}
	prefixed := strings.HasPrefix(name, http.TrailerPrefix)
	w.trailed = w.trailed || prefixed
	return prefixed
}

func (w *response) setLength(values []string) {
	if len(values) > 0 {
		if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= 0 {
			w.declared = n
		}
	}
}

// announce records the name of a trailer that the handler may set.
func (w *response) announce(name string) {
	switch name {
	case "", "Transfer-Encoding", "Content-Length", "Trailer":
	default:
		w.trailers = append(w.trailers, name)
	}
}

// sendHead sends the rest of the head. start is the start of the body, or all of it if done is true.
func (w *response) sendHead(start []byte, done bool) {
	w.sent = true
	headOnly, bodied := w.method == http.MethodHead, HasBody(w.status)
	out := w.conn.buf.out.AvailableBuffer()
	length := w.declared
	if length < 0 && done && !w.trailed && bodied && (len(start) > 0 || !headOnly) {
		length = int64(len(start))
	}
	if length >= 0 && bodied {
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), length, 10), "\r\n"...)
	}
	if bodied && !w.typed && !w.encoded && len(start) > 0 {
		out = appendFields(out, "Content-Type", []string{http.DetectContentType(start)})
	}
	if !w.dated {
		out = append(append(append(out, "Date: "...), w.conn.srv.date.Now()...), "\r\n"...)
	}
	if w.chunks = bodied && !headOnly && length < 0; w.chunks {
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	out = w.appendConnection(out)
	_, _ = w.conn.buf.out.Write(append(out, "\r\n"...)) // Flush returns the error
}

// appendConnection decides whether the connection closes, and appends the Connection header.
func (w *response) appendConnection(out []byte) []byte {
	closes := len(w.connection) > 0 && w.connection[0] == "close"
	w.last = closes || w.conn.srv.stopping.Load()
	if !w.last && !w.duplex && w.body.left.Load() > 0 {
		w.last = !w.body.drain()
	}
	if w.last && !closes {
		return append(out, "Connection: close\r\n"...)
	}
	return appendFields(out, "Connection", w.connection)
}

func appendStatus(out []byte, status int) []byte {
	out = strconv.AppendInt(append(out, "HTTP/1.1 "...), int64(status), 10)
	out = append(out, ' ')
	if text := http.StatusText(status); text != "" {
		out = append(out, text...)
	} else {
		out = strconv.AppendInt(append(out, "status code "...), int64(status), 10)
	}
	return append(out, "\r\n"...)
}

// appendFields appends a field, unless its name would break the response.
func appendFields(out []byte, name string, values []string) []byte {
	if !isToken(name) {
		return out
	}
	for _, v := range values {
		if strings.ContainsAny(v, "\r\n") {
			v = newlines.Replace(v)
		}
		out = append(append(out, name...), ": "...)
		out = append(append(out, textproto.TrimString(v)...), "\r\n"...)
	}
	return out
}

var newlines = strings.NewReplacer("\n", " ", "\r", " ")

func isToken(name string) bool {
	for i := range len(name) {
		if kinds[name[i]]&token == 0 {
			return false
		}
	}
	return name != ""
}

package http1

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
)

const (
	// MaxHead is the maximum size of a head in bytes.
	MaxHead = 2730
	// maxBody is the maximum length of a body in bytes.
	maxBody = 64 << 10
)

// head is the head of a request. Its strings share one string.
type head struct {
	size         int // bytes, with the empty line; 0 means that the request is for net/http
	method, path string
	host         string
	header       http.Header
	length       int // of the body
	url          *url.URL
}

// parse reads a head at the start of b. Its size is 0 if it differs from the strict subset, or is incomplete; more is
// true if more bytes might complete it.
func parse(b []byte) (h head, more bool) {
	b = b[:min(len(b), MaxHead)]
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return head{}, len(b) < MaxHead
	}
	line, fields, _ := strings.Cut(string(b[:end+2]), "\r\n")
	if h.requestLine(line) && h.fields(fields) {
		h.size = end + 4
	}
	return h, false
}

// requestLine parses a method, a path and the version, separated by one space each.
func (h *head) requestLine(line string) bool {
	var rest string
	h.method, rest, _ = strings.Cut(line, " ")
	switch h.method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
	default:
		return false
	}
	path, isHTTP11 := strings.CutSuffix(rest, " HTTP/1.1")
	if !isHTTP11 || path == "" || path[0] != '/' {
		return false
	}
	h.path = path
	return h.parsePath()
}

// parsePath parses the path, of visible characters.
func (h *head) parsePath() bool {
	for i := range len(h.path) {
		if kinds[h.path[i]]&visible == 0 {
			return false
		}
	}
	h.url = ParsePath(h.path, new(url.URL))
	return h.url != nil
}

// ParsePath parses a path like url.ParseRequestURI, with a shortcut for plain paths, which are stored in into. It
// returns nil if the path is invalid.
func ParsePath(path string, into *url.URL) *url.URL {
	for i := range len(path) {
		if kinds[path[i]]&plain == 0 {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				return nil
			}
			return u
		}
	}
	into.Path = path
	return into
}

// request returns the request of a head.
func (h *head) request(c *conn, e *exchange) *http.Request {
	req := http.Request{
		Method: h.method, URL: h.url, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h.header, Host: h.host,
		RequestURI: h.path, RemoteAddr: c.remote, Body: http.NoBody, ContentLength: int64(h.length),
	}
	if h.length > 0 {
		req.Body = &e.body
	}
	return req.WithContext(&e.ctx)
}

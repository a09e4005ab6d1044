package rest

import (
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/internal/lib/accept"
)

// leastCompressed is the minimum size of compressed responses, in bytes.
const leastCompressed = 1 << 10

// compressed compresses a JSON response for clients that accept it. It is not a response.Writer, because the first
// bytes of the body determine the header.
//
// The length of a compressed response reveals something about its content (BREACH). An attack needs a secret and
// the attacker's text in the same response, and a victim that repeats requests with its credentials. Apart from
// client certificates, browsers send no credential of the gateway automatically, and requests by pages of other
// sites are rejected. Responses with no-store, such as those with a new API key, are never compressed.
type compressed struct {
	http.ResponseWriter
	coding string // preferred coding: gzip, zstd or empty
	head   bool   // the response has no body
	code   int    // from WriteHeader; 0 means not called
	begun  bool   // the header was sent
	to     coder  // nil means not compressed
}

// coder is a reusable encoder.
type coder interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

var coders = map[string]*sync.Pool{ //nolint:gochecknoglobals // memory, shared by all answers
	"gzip": {New: func() any { return gzip.NewWriter(io.Discard) }},
	"zstd": {New: func() any {
		// These options are valid.
		z, _ := zstd.NewWriter(io.Discard, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10))
		return z
	}},
}

// WriteHeader is delayed until the first Write: a response that is written at once has that length.
func (c *compressed) WriteHeader(code int) {
	if code < http.StatusOK {
		c.ResponseWriter.WriteHeader(code)
	} else if c.code == 0 {
		c.code = code
	}
}

// begin decides whether to compress, and sends the header. first is the number of bytes of the first write.
func (c *compressed) begin(first int) {
	if c.begun {
		return
	}
	c.begun = true
	c.choose(first)
	if c.code != 0 {
		c.ResponseWriter.WriteHeader(c.code)
	}
}

func (c *compressed) choose(first int) {
	head, code := c.Header(), c.code
	if !isCompressible(head) {
		return
	}
	varyEncoding(head)
	length := first
	if n, err := strconv.Atoi(header.First(head, "Content-Length")); err == nil {
		length = n
	}
	if c.coding == "" || code == http.StatusNoContent || code == http.StatusNotModified ||
		code == http.StatusPartialContent || length < leastCompressed {
		return
	}
	head.Set("Content-Encoding", c.coding)
	head.Del("Content-Length")
	head.Del("Accept-Ranges")
	if tag := header.First(head, "Etag"); strings.HasPrefix(tag, `"`) {
		head.Set("ETag", "W/"+tag) // the same text in another encoding
	}
	c.to = coders[c.coding].Get().(coder)
	c.to.Reset(c.ResponseWriter)
}

// isCompressible reports whether a response is text that is neither streamed nor excluded from storage.
func isCompressible(head http.Header) bool {
	typ, cache := header.First(head, "Content-Type"), header.First(head, "Cache-Control")
	if typ != "application/json" {
		var err error
		if typ, _, err = mime.ParseMediaType(typ); err != nil {
			return false
		}
	}
	if header.First(head, "Content-Encoding") != "" || strings.Contains(cache, "no-store") ||
		strings.Contains(cache, "no-transform") {
		return false
	}
	switch typ {
	case "application/json", "application/problem+json", "application/yaml", "text/html", "text/css", "text/javascript":
		return true
	}
	return false
}

func (c *compressed) Write(p []byte) (int, error) {
	c.begin(len(p))
	switch {
	case c.to == nil:
		return c.ResponseWriter.Write(p)
	case c.head:
		return len(p), nil
	}
	return c.to.Write(p)
}

// FlushError implements the interface of http.ResponseController.
func (c *compressed) FlushError() error {
	c.begin(0)
	if c.to != nil {
		if err := c.to.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Unwrap implements the interface of http.ResponseController.
func (c *compressed) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// end writes the rest of the response.
func (c *compressed) end() {
	if c.code != 0 {
		c.begin(0)
	}
	if c.to == nil {
		return
	}
	if !c.head {
		_ = c.to.Close() // the client may have disconnected
	}
	c.to.Reset(io.Discard)
	coders[c.coding].Put(c.to)
	c.to = nil
}

// codingWanted negotiates the content coding (RFC 9110 §12.5.3); empty means none. Among equal weights it is zstd,
// which costs less.
func codingWanted(h http.Header) string {
	if len(h["Accept-Encoding"]) == 0 {
		return ""
	}
	ranges := accept.Ranges(h, "Accept-Encoding")
	best, most := "", 0.0
	for _, r := range ranges {
		if r.Name == "identity" { // * does not match it
			most = r.Weight
		}
	}
	for _, name := range []string{"zstd", "gzip"} {
		if w := accept.Weigh(ranges, name); w > 0 && (w > most || best == "" && w >= most) {
			best, most = name, w
		}
	}
	return best
}

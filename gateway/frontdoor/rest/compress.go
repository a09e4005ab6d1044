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
)

// leastCompressed is the shortest answer that is worth compressing, in bytes.
const leastCompressed = 1 << 10

// compressed is a response that is compressed, if it is JSON that its client would rather have so.
//
// How long a compressed answer is says something of what is in it (BREACH). That needs a secret and a text of the
// attacker's in one answer, and a victim that asks again and again with its credentials. Here no credential is
// one that browsers send of their own accord, but client certificates, and pages of other sites are refused. What must
// not be kept (no-store), such as an answer that holds a new API key, is never compressed.
type compressed struct {
	http.ResponseWriter
	coding string // that the client would rather have: gzip, zstd or ""
	head   bool   // there is no body to be sent
	code   int    // of WriteHeader; 0: not said
	begun  bool   // the header is sent
	to     coder  // nil: as it is
}

// coder is an encoder that can be used again.
type coder interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

var coders = map[string]*sync.Pool{ //nolint:gochecknoglobals // memory, shared by all answers
	"gzip": {New: func() any { return gzip.NewWriter(io.Discard) }},
	"zstd": {New: func() any {
		z, _ := zstd.NewWriter(io.Discard, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10)) // these options are good
		return z
	}},
}

// WriteHeader waits for the first Write: what is written at once is as long as that.
func (c *compressed) WriteHeader(code int) {
	if code < http.StatusOK {
		c.ResponseWriter.WriteHeader(code)
	} else if c.code == 0 {
		c.code = code
	}
}

// begin decides, and sends the header. first is how much is written first, in bytes.
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
	head.Add("Vary", "Accept-Encoding")
	length := first
	if n, err := strconv.Atoi(head.Get("Content-Length")); err == nil {
		length = n
	}
	if c.coding == "" || code == http.StatusNoContent || code == http.StatusNotModified || code == http.StatusPartialContent || length < leastCompressed {
		return
	}
	head.Set("Content-Encoding", c.coding)
	head.Del("Content-Length")
	head.Del("Accept-Ranges")
	if tag := head.Get("ETag"); strings.HasPrefix(tag, `"`) {
		head.Set("ETag", "W/"+tag) // the same text in other bytes
	}
	c.to = coders[c.coding].Get().(coder)
	c.to.Reset(c.ResponseWriter)
}

// isCompressible is whether an answer is text, and none that comes bit by bit or must not be kept.
func isCompressible(head http.Header) bool {
	typ, _, err := mime.ParseMediaType(head.Get("Content-Type"))
	cache := head.Get("Cache-Control")
	if err != nil || head.Get("Content-Encoding") != "" || strings.Contains(cache, "no-store") || strings.Contains(cache, "no-transform") {
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

// FlushError is for http.ResponseController.
func (c *compressed) FlushError() error {
	c.begin(0)
	if c.to != nil {
		if err := c.to.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (c *compressed) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// end writes what is left.
func (c *compressed) end() {
	if c.code != 0 {
		c.begin(0)
	}
	if c.to == nil {
		return
	}
	if !c.head {
		_ = c.to.Close() // the client may be gone; there is nobody left to tell
	}
	c.to.Reset(io.Discard)
	coders[c.coding].Put(c.to)
	c.to = nil
}

// codingWanted is the coding in which the client would rather have an answer (RFC 9110 §12.5.3), "" for none. Of
// equals it is zstd, which is cheaper.
func codingWanted(header http.Header) string {
	q := map[string]float64{}
	for _, list := range header.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(list, ",") {
			name, param, _ := strings.Cut(one, ";")
			name, weight := strings.ToLower(strings.TrimSpace(name)), 1.0
			if v, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(param, " ", "")), "q="); ok {
				var err error
				if weight, err = strconv.ParseFloat(v, 64); err != nil || !(weight >= 0 && weight <= 1) {
					weight = 0
				}
			}
			if name == "x-gzip" {
				name = "gzip"
			}
			q[name] = weight
		}
	}
	of := func(name string) float64 {
		if w, ok := q[name]; ok {
			return w
		}
		return q["*"]
	}
	best, most := "", q["identity"]
	for _, name := range []string{"zstd", "gzip"} {
		if w := of(name); w > 0 && (w > most || best == "" && w >= most) {
			best, most = name, w
		}
	}
	return best
}

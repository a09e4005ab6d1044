package rest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
)

// tagged is a response message with an etag.
type tagged interface{ GetEtag() string }

// label writes the etag of a response, as private, because it depends on the caller.
func label(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	if t, ok := m.(tagged); ok && t.GetEtag() != "" {
		w.Header().Set("ETag", t.GetEtag())
		w.Header().Set("Cache-Control", "private, no-cache")
	}
	return nil
}

// Conditional adds an ETag to JSON responses to GET, unless next has set one, and answers 304 to a matching
// If-None-Match.
func Conditional(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := conditionally(w, r); c.get {
			w = c
		}
		next.ServeHTTP(w, r)
	})
}

// conditional answers a request whose sender has the answer already by 304 (RFC 9110 §13.1.2). It is no
// response.Writer, as the first bytes of the body decide about the status.
type conditional struct {
	http.ResponseWriter
	get   bool
	known []string // If-None-Match
	code  int      // of WriteHeader; 0 means not called
	begun bool     // the header is sent
	same  bool
}

func conditionally(w http.ResponseWriter, r *http.Request) *conditional {
	return &conditional{ResponseWriter: w, get: r.Method == http.MethodGet || r.Method == http.MethodHead,
		known: r.Header.Values("If-None-Match")}
}

// WriteHeader waits for the first Write where the ETag depends on it.
func (c *conditional) WriteHeader(code int) {
	if c.code = code; code != http.StatusOK || !c.wantsTag() {
		c.begin(code)
	}
}

// wantsTag reports whether a response gets an ETag: 200 with JSON, a known length, and without no-store.
func (c *conditional) wantsTag() bool {
	head := c.Header()
	return c.get && !c.begun && head.Get("ETag") == "" && head.Get("Cache-Control") == "" &&
		head.Get("Content-Length") != "" &&
		strings.HasPrefix(head.Get("Content-Type"), "application/json")
}

// tag adds the ETag of a response that is written at once.
func (c *conditional) tag(all []byte) {
	if c.Header().Get("Content-Length") != strconv.Itoa(len(all)) {
		return
	}
	sum := sha256.Sum256(all)
	c.Header().Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`)
	c.Header().Set("Cache-Control", "private, no-cache")
}

func (c *conditional) begin(code int) {
	if !c.begun {
		c.begun = true
		c.same = code == http.StatusOK && c.has(c.Header().Get("ETag"))
	}
	if c.same {
		code = http.StatusNotModified
		c.Header().Del("Content-Length")
		c.Header().Del("Content-Type")
	}
	c.ResponseWriter.WriteHeader(code)
}

func (c *conditional) Write(p []byte) (int, error) {
	if !c.begun {
		if (c.code == 0 || c.code == http.StatusOK) && c.wantsTag() {
			c.tag(p)
		}
		c.begin(cmp.Or(c.code, http.StatusOK))
	}
	if c.same {
		return len(p), nil
	}
	return c.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (c *conditional) FlushError() error {
	if !c.begun && c.code != 0 {
		c.begin(c.code)
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (c *conditional) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// has compares weakly: the same text is the same answer.
func (c *conditional) has(etag string) bool {
	if etag == "" {
		return false
	}
	for _, list := range c.known {
		for one := range strings.SplitSeq(list, ",") {
			if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == etag || one == "*" {
				return true
			}
		}
	}
	return false
}

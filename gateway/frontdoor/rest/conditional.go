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

// label sets the etag of a response as private, because it depends on the caller.
func label(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	if t, ok := m.(tagged); ok && t.GetEtag() != "" {
		w.Header().Set("ETag", t.GetEtag())
		w.Header().Set("Cache-Control", "private, no-cache")
	}
	return nil
}

// Conditional adds an ETag to JSON responses to GET, unless next has set one, and responds with 304 to a matching
// If-None-Match.
func Conditional(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := conditionally(w, r); c.get {
			w = c
		}
		next.ServeHTTP(w, r)
	})
}

// conditional responds with 304 if the client already has the response (RFC 9110 §13.1.2). It is not a
// response.Writer, because the first bytes of the body determine the status.
type conditional struct {
	http.ResponseWriter
	get   bool
	known []string // If-None-Match
	code  int      // from WriteHeader; 0 means not called
	begun bool     // the header was sent
	same  bool
}

func conditionally(w http.ResponseWriter, r *http.Request) *conditional {
	return &conditional{ResponseWriter: w, get: r.Method == http.MethodGet || r.Method == http.MethodHead,
		known: r.Header.Values("If-None-Match")}
}

// WriteHeader is delayed until the first Write if the ETag depends on it.
func (c *conditional) WriteHeader(code int) {
	if c.code = code; code != http.StatusOK || !c.wantsTag() {
		c.begin(code)
	}
}

// wantsTag reports whether a response gets an ETag: it has status 200, JSON, a known length, and no Cache-Control.
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

// FlushError implements the interface of http.ResponseController.
func (c *conditional) FlushError() error {
	if !c.begun && c.code != 0 {
		c.begin(c.code)
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Unwrap implements the interface of http.ResponseController.
func (c *conditional) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// has compares weakly: equal text is the same response.
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

package rest

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
)

// tagged is an answer that says what it is known by.
type tagged interface{ GetEtag() string }

// label says in the header what an answer is: its etag, as what a caller may use is for nobody else, and
// what became of a call.
func label(ctx context.Context, w http.ResponseWriter, m proto.Message) error {
	if t, ok := m.(tagged); ok && t.GetEtag() != "" {
		w.Header().Set("ETag", t.GetEtag())
		w.Header().Set("Cache-Control", "private, no-cache")
	}
	bodyOf(ctx).tellReplay(w.Header())
	if o := bodyOf(ctx).outcome; o != "" {
		w.Header().Set("X-Capgate-Outcome", o)
	}
	if b, ok := m.(*httpbody.HttpBody); ok && len(b.GetData()) == 0 {
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNoContent)
	}
	return nil
}

// conditional answers a request whose sender has the answer already by 304 (RFC 9110 §13.1.2).
type conditional struct {
	http.ResponseWriter
	known []string // If-None-Match
	begun bool
	same  bool
}

func (c *conditional) WriteHeader(code int) {
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
		c.WriteHeader(http.StatusOK)
	}
	if c.same {
		return len(p), nil
	}
	return c.ResponseWriter.Write(p)
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

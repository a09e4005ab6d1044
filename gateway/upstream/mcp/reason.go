package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"unicode"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/health"
)

const (
	maxWords = 120     // bytes of a response that a reason may have
	maxStart = 4 << 10 // bytes of a response in which secrets are searched
	minLeak  = 8       // bytes of the shortest secret that is searched for
	maxLeak  = 32      // bytes of a secret that are searched for
)

// witness notes what a probe or a call met instead of an MCP server.
type witness struct{ met atomic.Pointer[meeting] }

// meeting is a response that is not one of MCP.
type meeting struct {
	code  int
	words string // what is there
	hint  string // what to write; may be ""
	text  string // the beginning of the response, for operators
}

// told returns what callers may read.
func (m *meeting) told() string { return strings.TrimSuffix(m.words+": "+m.hint, ": ") }

type witnessKey struct{}

func withWitness(ctx context.Context) (context.Context, *witness) {
	w := &witness{}
	return context.WithValue(ctx, witnessKey{}, w), w
}

// reason returns the reason of a failed probe.
func (w *witness) reason(err error) string {
	if met := w.met.Load(); met != nil {
		switch met.code {
		case http.StatusUnauthorized, http.StatusForbidden:
			return health.Rejecting(met.words, met.hint, met.text)
		case http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed:
			return health.Mistaken(met.told(), met.text)
		}
		return strings.TrimSuffix(met.words+": "+met.text, ": ")
	}
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens at this address"
	case strings.Contains(text, `malformed HTTP response "\x00\x00`), // the settings of HTTP/2
		strings.Contains(text, "readLoopPeekFailLocked: %!w(<nil>)"): // the same, before the request was sent
		return health.Mistaken("the server speaks HTTP/2, as gRPC servers do, and not MCP; set protocol: grpc for a gRPC "+
			"service, and no protocol for a capability, each with HOST:PORT as the backend", "")
	case strings.Contains(text, "malformed HTTP response"):
		return health.Mistaken("the server does not speak HTTP, and so not MCP", "")
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return health.Mistaken("the server does not use TLS; the backend's URL begins with http://", "")
	}
	return text
}

// words returns a response of this status in words, for the error of a call.
func (w *witness) words(code int) string {
	met := w.met.Load()
	switch {
	case met == nil || met.code != code:
		return fmt.Sprintf("HTTP %d", code)
	case code == http.StatusForbidden, code == http.StatusUnauthorized:
		return met.told() + health.ToldOf(met.text)
	}
	return met.told()
}

// note notes a response that is not one of MCP, with the beginning of its body.
func (t *transport) note(r *http.Request, resp *http.Response) {
	w, _ := r.Context().Value(witnessKey{}).(*witness)
	if w == nil || r.Method != http.MethodPost {
		return
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	page := resp.StatusCode == http.StatusOK && kind == "text/html"
	if resp.StatusCode < 400 && !page {
		return
	}
	start, _ := io.ReadAll(io.LimitReader(resp.Body, maxStart))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), resp.Body), resp.Body}
	met := &meeting{code: resp.StatusCode, words: fmt.Sprintf("HTTP %d", resp.StatusCode)}
	switch {
	case page:
		met.hint = "a page of text/html, and nothing of MCP; most servers have it at /mcp"
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		met.hint = "nothing of MCP is at this path; most servers have it at /mcp"
	case resp.StatusCode == http.StatusUnauthorized:
		met.hint = "the server wants a credential; mcp_server.headers_file has one"
	}
	if !page && !t.repeats(start) {
		met.text = upstream.Clip(printable(start), maxWords)
	}
	w.met.CompareAndSwap(nil, met)
}

// repeats reports whether a text has a part of the configured headers, which may be credentials.
func (t *transport) repeats(text []byte) bool {
	for _, values := range t.header {
		for _, value := range values {
			for field := range strings.FieldsSeq(value) {
				if len(field) >= minLeak && bytes.Contains(text, []byte(field[:min(len(field), maxLeak)])) {
					return true
				}
			}
		}
	}
	return false
}

// printable returns a text of a server without control characters.
func printable(text []byte) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, strings.ToValidUTF8(string(text), "")))
}

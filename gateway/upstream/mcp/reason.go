package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"unicode"
)

// maxWords is how many bytes of a response a probe's reason may have.
const maxWords = 120

// witness notes what a probe met instead of an MCP server. Only operators see that.
type witness struct{ words atomic.Pointer[string] }

type witnessKey struct{}

func withWitness(ctx context.Context) (context.Context, *witness) {
	w := &witness{}
	return context.WithValue(ctx, witnessKey{}, w), w
}

// reason returns the reason of a failed probe.
func (w *witness) reason(err error) string {
	if words := w.words.Load(); words != nil {
		return *words
	}
	switch text := err.Error(); {
	case strings.Contains(text, `malformed HTTP response "\x00\x00`), // the settings of HTTP/2
		strings.Contains(text, "readLoopPeekFailLocked: %!w(<nil>)"): // the same, before the request was sent
		return "the server speaks HTTP/2, as gRPC servers do, and not MCP; set protocol: grpc for a gRPC service, and no " +
			"protocol for a capability, each with HOST:PORT as the backend"
	case strings.Contains(text, "malformed HTTP response"):
		return "the server does not speak HTTP, and so not MCP"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "the server does not use TLS; the backend's URL begins with http://"
	default:
		return text
	}
}

// noteStatus notes a response that is no success, with the beginning of its body.
func noteStatus(r *http.Request, resp *http.Response) {
	w, _ := r.Context().Value(witnessKey{}).(*witness)
	if w == nil || resp.StatusCode < 400 || r.Method != http.MethodPost {
		return
	}
	start, _ := io.ReadAll(io.LimitReader(resp.Body, maxWords))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), resp.Body), resp.Body}
	words := fmt.Sprintf("HTTP %d", resp.StatusCode)
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		words += ": nothing of MCP is at this path; most servers have it at /mcp"
	case http.StatusUnauthorized:
		words += ": the server wants a credential; mcp_server.headers_file has one"
	}
	if text := printable(start); text != "" {
		words += ": " + text
	}
	w.words.CompareAndSwap(nil, &words)
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

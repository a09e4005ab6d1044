package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	maxWords = 120     // bytes of a response that a reason may have
	maxSaid  = 300     // bytes of the message of an error of JSON-RPC
	maxStart = 4 << 10 // bytes of a response in which secrets are searched
)

// responseNote records what a probe or a call found instead of an MCP server.
type responseNote struct{ note atomic.Pointer[otherResponse] }

// otherResponse is a response that is not one of MCP.
type otherResponse struct {
	code  int
	words string // what is there
	hint  string // what to write; may be ""
	text  string // the beginning of the response, for operators
	said  string // the message of the error of JSON-RPC that the response is, if it names no request; empty means none
}

// publicText returns what callers may read.
func (m *otherResponse) publicText() string { return strings.TrimSuffix(m.words+": "+m.hint, ": ") }

// saidText returns the error in the response, after what is there.
func (m *otherResponse) saidText() string {
	return strings.TrimSuffix(m.publicText()+": "+m.said, ": ")
}

type noteKey struct{}

func withNote(ctx context.Context) (context.Context, *responseNote) {
	w := &responseNote{}
	return context.WithValue(ctx, noteKey{}, w), w
}

// reason returns the reason of a failed probe.
func (w *responseNote) reason(err error) string {
	if note := w.note.Load(); note != nil {
		switch note.code {
		case http.StatusUnauthorized, http.StatusForbidden:
			return health.Rejecting(note.words, note.hint, note.text)
		case http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed:
			return health.WrongService(note.publicText(), note.text)
		}
		if isRedirect(note.code) {
			return note.text
		}
		return strings.TrimSuffix(note.words+": "+cmp.Or(note.said, note.text), ": ")
	}
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens at this address"
	case strings.Contains(text, `malformed HTTP response "\x00\x00`), // the settings of HTTP/2
		strings.Contains(text, "readLoopPeekFailLocked: %!w(<nil>)"): // the same, before the request was sent
		return health.WrongService("the server speaks HTTP/2, as gRPC servers do, and not MCP; set protocol: grpc "+
			"for a gRPC "+"service, and no protocol for a capability, each with HOST:PORT as the backend", "")
	case strings.Contains(text, "malformed HTTP response"):
		return health.WrongService("the server does not speak HTTP, and so not MCP", "")
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return health.WrongService("the server does not use TLS; the backend's URL begins with http://", "")
	}
	return text
}

// words returns a response of this status in words, for the error of a call.
func (w *responseNote) words(code int) string {
	note := w.note.Load()
	switch {
	case note == nil || note.code != code:
		return fmt.Sprintf("HTTP %d", code)
	case code == http.StatusForbidden, code == http.StatusUnauthorized:
		return note.publicText() + health.PublicResponse(note.text)
	}
	return note.saidText()
}

// cause returns why no session could be opened: what the server has said, or else the error.
func (w *responseNote) cause(err error) error {
	if w == nil {
		return err
	}
	if note := w.note.Load(); note != nil && note.said != "" {
		return errors.New("the MCP server rejects the request: " + note.saidText())
	}
	return err
}

func noteOf(ctx context.Context) *responseNote {
	w, _ := ctx.Value(noteKey{}).(*responseNote)
	return w
}

// note notes a response that is not one of MCP, with the beginning of its body, until the server sends another one.
func (t *transport) note(r *http.Request, resp *http.Response) {
	w := noteOf(r.Context())
	if w == nil || r.Method != http.MethodPost {
		return
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	page := resp.StatusCode == http.StatusOK && kind == "text/html"
	note := &otherResponse{code: resp.StatusCode, words: fmt.Sprintf("HTTP %d", resp.StatusCode)}
	switch {
	case isRedirect(resp.StatusCode):
		note.text = redirected(resp).Error()
		w.note.Store(note)
		return
	case resp.StatusCode < 400 && !page:
		w.note.Store(nil)
		return
	}
	start, _ := io.ReadAll(io.LimitReader(resp.Body, maxStart))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), resp.Body), resp.Body}
	switch {
	case page:
		note.hint = "a page of text/html, and nothing of MCP; most servers have it at /mcp"
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		note.hint = "nothing of MCP is at this path; most servers have it at /mcp"
	case resp.StatusCode == http.StatusUnauthorized:
		note.hint = "the server wants a credential; mcp_server.headers_file has one"
	}
	if !page && !upstream.Repeats(string(start), t.header) {
		note.text, note.said = untrusted.Clip(untrusted.Line(string(start)), maxWords), saidOf(start)
	}
	w.note.Store(note)
}

// saidOf returns the message of an error of JSON-RPC that names no request, with the revisions that it lists; empty
// means the text is none. An error of the transport is one.
func saidOf(text []byte) string {
	var m message
	if json.Unmarshal(text, &m) != nil || m.Error == nil || !m.isUnnamed() {
		return ""
	}
	var data struct {
		Supported []string `json:"supported"`
	}
	said := m.Error.Message
	if json.Unmarshal(m.Error.Data, &data) == nil && len(data.Supported) > 0 {
		said += " (supported: " + strings.Join(data.Supported, ", ") + ")"
	}
	return untrusted.Clip(untrusted.Line(said), maxSaid)
}

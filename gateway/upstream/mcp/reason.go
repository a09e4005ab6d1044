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
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	maxWords = 120     // bytes of a response in a reason
	maxSaid  = 300     // bytes of a JSON-RPC error's message
	maxStart = 4 << 10 // bytes of a response that are searched for secrets
)

// responseNote records a response to a probe or a call that is not from an MCP server.
type responseNote struct{ note atomic.Pointer[otherResponse] }

// otherResponse is a response that is not MCP.
type otherResponse struct {
	code         int
	words        string // description of the response
	hint         string // suggested fix; may be empty
	text         string // start of the response, for operators
	unauthorized bool   // it stands for one of a server that accepts no token of the gateway
	said         string // message of the JSON-RPC error in the response, if that has no id; empty means none
}

// publicText returns the description that callers may read.
func (m *otherResponse) publicText() string { return strings.TrimSuffix(m.words+": "+m.hint, ": ") }

// saidText returns the description with the error in the response.
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
	case errors.Is(err, assertion.ErrNoKey):
		return assertion.ErrNoKey.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens at this address"
	case strings.Contains(text, `malformed HTTP response "\x00\x00`), // settings of HTTP/2
		strings.Contains(text, "readLoopPeekFailLocked: %!w(<nil>)"): // the same, before the request was sent
		return health.WrongService("the server uses HTTP/2, like gRPC servers, and is not an MCP server; set "+
			"protocol: grpc for a gRPC service, and no protocol for a capability, each with HOST:PORT as the "+
			"backend", "")
	case strings.Contains(text, "malformed HTTP response"):
		return health.WrongService("the server does not use HTTP, so it is not an MCP server", "")
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return health.WrongService("the server does not use TLS; the backend's URL begins with http://", "")
	}
	return text
}

// words returns a description of a response with this status, for the error of a call.
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

// cause returns the reason why no session could be opened: the server's own, or else the error.
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

// note records a response that is not MCP, with the start of its body, until the server sends another one.
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
	if of, is := resp.Body.(unauthorized); is {
		note.words, note.text = note.words+noToken, upstream.Said(of.why.Error(), maxSaid)
		note.unauthorized = true
		w.note.Store(note)
		return
	}
	start, _ := io.ReadAll(io.LimitReader(resp.Body, maxStart))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), resp.Body), resp.Body}
	switch {
	case page:
		note.hint = "an HTML page, not MCP; most servers serve MCP at /mcp"
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		note.hint = "MCP is not served at this path; most servers serve it at /mcp"
	case resp.StatusCode == http.StatusUnauthorized:
		note.hint = "the server requires a credential; set one in mcp_server.headers_file, or mcp_server.oauth"
	}
	if !page && !upstream.Repeats(string(start), t.secrets()) &&
		!upstream.Repeats(string(start), http.Header{"": r.Header.Values(assertion.Header)}) {
		note.text, note.said = untrusted.Clip(untrusted.Line(string(start)), maxWords), saidOf(start)
	}
	w.note.Store(note)
}

// saidOf returns the message of a JSON-RPC error without an id, with the revisions that it lists; empty means the text
// is not such an error. Errors of the transport have this form.
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

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/stream"
)

// The SDK represents ids as 64-bit integers parsed as doubles, so it gets placeholderID instead of the client's id. It
// serves one message at a time. Its responses start with responseHead, and events with eventHead.
const (
	placeholderID = "1"
	eventHead     = "event: message\ndata: "
	responseHead  = `{"jsonrpc":"2.0","id":`
)

// request returns the request for the SDK: the method and the params of the message, with a placeholder for its id. A
// client may accept JSON only, although the SDK requires events too.
func (m *message) request(r *http.Request) *http.Request {
	method, _ := json.Marshal(m.method) // strings can always be encoded
	head, end := `{"jsonrpc":"2.0","method":`+string(method), "}"
	if m.id != nil {
		head += `,"id":` + placeholderID
	}
	if m.params != nil {
		head += `,"params":`
	}
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(head), bytes.NewReader(m.params), strings.NewReader(end)))
	r.ContentLength = int64(len(head) + len(m.params) + len(end))
	r.Header = r.Header.Clone()
	r.Header.Set("Accept", usualAccept)
	r.Header.Del("Last-Event-Id") // streams cannot be resumed
	r.Header.Del("Mcp-Session-Id")
	return r
}

// withID returns a response of the SDK, or an event with one, with the client's id. Other texts are unchanged.
func (m *message) withID(text []byte) []byte {
	rest, _ := bytes.CutPrefix(text, []byte(eventHead))
	after, ok := bytes.CutPrefix(rest, []byte(responseHead+placeholderID+","))
	if !ok || m.id == nil {
		return text
	}
	return slices.Concat(text[:len(text)-len(rest)], []byte(responseHead), m.id, []byte(","), after)
}

// sdkResponse passes a response of the SDK to the client, with the client's id. The SDK writes each message at once. A
// JSON response becomes an event if events were already sent. Some of the SDK's errors are plain text, but clients
// expect JSON-RPC; others quote the message, and none has a reason. It is not a response.Writer, because it replaces
// the response.
type sdkResponse struct {
	h      *Handler
	x      *exchange
	header http.Header // header of the SDK, which sets it while heartbeats may start the response
	begun  bool        // the response has started, and has no events
	text   bool        // the response was plain text, which is not sent
}

// serveSDK serves a message with the SDK.
func (h *Handler) serveSDK(ctx context.Context, by http.Handler, x *exchange) {
	by.ServeHTTP(&sdkResponse{h: h, x: x, header: http.Header{}}, x.read.request(x.r.WithContext(ctx)))
}

// Header implements http.ResponseWriter.
func (w *sdkResponse) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *sdkResponse) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(w.header.Get("Content-Type"), "text/plain") {
		clear(w.header)
		w.h.refuse(w, w.x.r, w.x.read, refused(status, jsonrpc.CodeInvalidRequest, "INVALID_BODY",
			"the message is not valid MCP: a member is missing, or has the wrong type"))
		w.text = true
		return
	}
	if w.isEvent() || w.begun {
		return
	}
	w.begun = true
	maps.Copy(w.x.out.Header(), w.header)
	w.x.out.WriteHeader(status)
}

// Write implements io.Writer.
func (w *sdkResponse) Write(text []byte) (int, error) {
	if w.text {
		return len(text), nil
	}
	own := w.x.read.withID(text)
	if refused := w.withReason(own); refused != nil {
		own = refused
	}
	switch {
	case w.header.Get("Content-Type") == stream.Events:
		return len(text), w.x.events.Send(own)
	case w.isEvent():
		return len(text), w.x.events.text(own)
	}
	w.WriteHeader(http.StatusOK)
	if _, err := w.x.out.Write(own); err != nil {
		return 0, err
	}
	return len(text), nil
}

// isEvent reports whether the SDK writes an event. A JSON response ends the heartbeats, because none may follow it.
func (w *sdkResponse) isEvent() bool {
	if w.header.Get("Content-Type") == stream.Events {
		return true
	}
	w.x.alive.stop()
	return w.x.events.Begun()
}

// FlushError implements the interface of http.ResponseController. Events are flushed when they are written.
func (*sdkResponse) FlushError() error { return nil }

// maxBefore is the maximum number of bytes before the error in a JSON-RPC response: the id is the longest member.
const maxBefore = 8 * maxID

// withReason returns a response of the SDK, or an event with one, with the gateway's error instead of the SDK's; nil
// means that it has no error.
func (w *sdkResponse) withReason(text []byte) []byte {
	if !bytes.Contains(text[:min(len(text), maxBefore)], []byte(`"error":{`)) {
		return nil
	}
	at := max(bytes.Index(text, []byte("{")), 0)
	end := bytes.LastIndexByte(text, '}') + 1
	var answer response
	var of errorData
	if end < at || json.Unmarshal(text[at:end], &answer) != nil ||
		answer.Error.Code == 0 && answer.Error.Message == "" {
		return nil
	}
	if json.Unmarshal(answer.Error.Data, &of) == nil && of.Code != "" {
		return nil
	}
	e := rpcOf(w.x.r, w.x.read.ownError(answer.Error))
	answer.Error = rpcError{e.Code, e.Message, e.Data}
	own, err := json.Marshal(answer)
	if err != nil {
		return nil
	}
	return slices.Concat(text[:at], own, text[end:])
}

// constants matches the names in the SDK's errors that belong to the protocol: of headers, and of members of _meta.
var constants = regexp.MustCompile(`\bMcp-[A-Z][A-Za-z-]+|\bio\.modelcontextprotocol/[A-Za-z]+`)

// ownError returns the gateway's error for an error of the SDK.
func (m *message) ownError(e rpcError) error {
	named := constants.FindString(e.Message)
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return m.unknownMethod()
	case sdk.CodeHeaderMismatch:
		if strings.HasPrefix(named, "Mcp-") {
			return refused(http.StatusBadRequest, e.Code, "MCP_HEADER_MISMATCH",
				"the header "+named+" is missing, or does not match the message")
		}
		e.Code = jsonrpc.CodeInvalidParams // the SDK cannot compare headers with params that it cannot decode
	case sdk.CodeUnsupportedProtocolVersion:
		return refused(http.StatusBadRequest, e.Code, "MCP_VERSION_UNSUPPORTED",
			"the revision of the protocol is not supported")
	case jsonrpc.CodeInternalError:
		return refused(http.StatusInternalServerError, e.Code, "INTERNAL", "the gateway failed to answer the message")
	case 0:
		e.Code = jsonrpc.CodeInvalidParams // the SDK has no code for params that it cannot decode
	}
	if strings.HasPrefix(named, "io.") {
		return refused(http.StatusBadRequest, e.Code, "INVALID_BODY", "the member "+named+
			" of _meta is missing or invalid")
	}
	return refused(http.StatusBadRequest, e.Code, "INVALID_BODY",
		"the params are not valid for the method: a member is missing, or has the wrong type")
}

package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/capgate/capgate/gateway/frontdoor/stream"
)

// The SDK holds ids as 64-bit integers that it has read as doubles, so it gets placeholderID in place of the client's.
// It has one message at a time. Its responses begin with responseHead, and events with eventHead.
const (
	placeholderID = "1"
	eventHead     = "event: message\ndata: "
	responseHead  = `{"jsonrpc":"2.0","id":`
)

// request returns the request as the SDK gets it: the method and the params of the message, with the placeholder for
// its id. A client that accepts JSON alone gets JSON, where the SDK would insist on both.
func (m *message) request(r *http.Request) *http.Request {
	method, _ := json.Marshal(m.method) // texts always have JSON
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
	r.Header.Set("Accept", "application/json, "+stream.Events)
	r.Header.Del("Last-Event-Id") // no stream is resumed
	r.Header.Del("Mcp-Session-Id")
	return r
}

// withID returns a response of the SDK, or the event with one, with the client's id. Other texts stay as they are.
func (m *message) withID(text []byte) []byte {
	rest, _ := bytes.CutPrefix(text, []byte(eventHead))
	after, ok := bytes.CutPrefix(rest, []byte(responseHead+placeholderID+","))
	if !ok || m.id == nil {
		return text
	}
	return slices.Concat(text[:len(text)-len(rest)], []byte(responseHead), m.id, []byte(","), after)
}

// sdkResponse is a response of the SDK on its way to the client, which gets its own id. Some of the SDK's errors are
// plain text, where clients expect JSON-RPC. It is no response.Writer, as it replaces the response instead of beginning
// it.
type sdkResponse struct {
	http.ResponseWriter
	h    *Handler
	r    *http.Request
	read *message
	text bool // the response is plain text, which is not sent
}

// serveSDK has the SDK answer a message.
func (h *Handler) serveSDK(sdk http.Handler, out http.ResponseWriter, r *http.Request, m *message) {
	sdk.ServeHTTP(&sdkResponse{ResponseWriter: out, h: h, r: r, read: m}, m.request(r))
}

// WriteHeader implements http.ResponseWriter.
func (w *sdkResponse) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.text = true
		w.h.refuse(w.ResponseWriter, w.r, w.read, refused(status, jsonrpc.CodeInvalidRequest, "INVALID_BODY",
			"the message is not one of MCP: a member is missing, or has another type"))
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *sdkResponse) Write(text []byte) (int, error) {
	if w.text {
		return len(text), nil
	}
	if _, err := w.ResponseWriter.Write(w.read.withID(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Unwrap is for http.ResponseController.
func (w *sdkResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

package mcp

import (
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// sdkResponse is a response of the SDK on its way to the client. Some of the SDK's errors are plain text, where clients
// expect JSON-RPC. It is no response.Writer, as it replaces the response instead of beginning it.
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
	return w.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (w *sdkResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

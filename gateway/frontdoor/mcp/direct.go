package mcp

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// readDirect returns the call of a message that is served without the SDK; nil means that the SDK must serve it. The
// SDK decodes a message a dozen times, which costs more than the rest of a call. The checks of the SDK are made here;
// if one fails, or a member is unusual, the SDK gets the message and responds.
func (m *message) readDirect(params strictjson.Value, header http.Header) *directCall {
	if m.tool == "" || m.streams || m.id == nil {
		return nil
	}
	of := m.directCall()
	p := &of.params
	p.Name = m.tool
	for name, v := range params.Members() {
		kind := strictjson.Object
		switch string(name.Bytes()) {
		case "name":
			kind = strictjson.String
		case "arguments":
			if v.Kind() == kind {
				p.Arguments = v.Raw()
			}
		case "_meta":
		default:
			return nil
		}
		if v.Kind() != kind {
			return nil
		}
	}
	if !m.isPlain(header) {
		return nil
	}
	of.request.Params = p
	return of
}

// directCall is a call without the SDK, in memory that later calls use again. Nothing may keep a part of it after the
// response.
type directCall struct {
	request    sdk.CallToolRequest
	params     sdk.CallToolParamsRaw
	invocation invocation
}

// Common header values.
//
//nolint:gochecknoglobals // constants
var (
	jsonType  = []string{"application/json"}
	notCached = []string{"no-cache, no-transform"}
	noSniff   = []string{"nosniff"}
)

// serveDirect serves a call without the SDK.
func (h *Handler) serveDirect(ctx context.Context, out http.ResponseWriter, x *exchange) {
	x.memory = x.read.memory
	if x.memory == nil { // in a batch
		x.memory = h.memories.take()
	}
	result, err := h.direct(ctx, x.read.method, &x.read.call.request)
	h.writeDirect(out, x, result, err)
	memory := x.memory
	x.alive, x.memory, x.read.call, x.read.memory = nil, nil, nil, nil // the context of the request still has x
	h.memories.put(memory)
}

// writeDirect writes the response of a request that is served without the SDK.
func (h *Handler) writeDirect(out http.ResponseWriter, x *exchange, result sdk.Result, err error) {
	m, w := x.read, &x.memory.answer
	x.alive.stop()
	w.begin(m.id)
	if r, own := result.(*callResult); !own || !r.isShort() {
		w.send = x.sender(out)
	}
	httpStatus := http.StatusOK
	if err == nil {
		h.writeResult(w, result, m.isStateless())
	} else {
		httpStatus = w.failure(err, m.isStateless())
	}
	if w.sent {
		w.text = append(w.text, '}')
		w.flush()
		x.sentAll(w)
		return
	}
	if w.err != nil {
		httpStatus, *w = http.StatusInternalServerError, writer{text: w.text[:0]}
		w.begin(m.id)
		w.member("error", rpcError{Code: jsonrpc.CodeInternalError, Message: "the response has no JSON"})
	}
	w.text = append(w.text, '}')
	if x.events.Begun() || m.streams {
		_ = x.events.text(w.text) // the client may have disconnected
		return
	}
	head := out.Header()
	head["Content-Type"], head["Cache-Control"] = jsonType, notCached
	head["Content-Length"] = []string{strconv.Itoa(len(w.text))}
	out.WriteHeader(httpStatus)
	_, _ = out.Write(w.text) // the client may have disconnected
}

// failure writes an error, and returns the HTTP status of the response.
func (w *writer) failure(err error, stateless bool) (httpStatus int) {
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) {
		w.member("error", rpcError{Code: jsonrpc.CodeInternalError,
			Message: "the gateway failed to answer the message"})
		return http.StatusOK
	}
	w.member("error", rpcError{rpc.Code, rpc.Message, rpc.Data})
	if stateless {
		return statusOf(rpc.Code)
	}
	return http.StatusOK
}

// sender returns the function that sends the parts of a long response.
func (x *exchange) sender(out http.ResponseWriter) func([]byte) error {
	begun := false
	return func(text []byte) error {
		if x.events.Begun() {
			first := !begun
			begun = true
			return x.events.part(text, first)
		}
		if !begun {
			begun = true
			head := out.Header()
			head["Content-Type"], head["Cache-Control"] = jsonType, notCached
			out.WriteHeader(http.StatusOK)
		}
		_, err := out.Write(text)
		return err
	}
}

// sentAll ends a response that was sent in parts. A response that could not be encoded stays incomplete.
func (x *exchange) sentAll(w *writer) {
	switch {
	case w.err != nil:
		panic(http.ErrAbortHandler)
	case x.events.Begun() && !w.gone:
		_ = x.events.Send([]byte("\n\n")) // the client may have disconnected
	}
}

// writeResult writes a result with its server info (2026-07-28, Base Protocol).
func (h *Handler) writeResult(w *writer, result sdk.Result, stateless bool) {
	r, own := result.(*callResult)
	if stateless && (!own || len(r.Meta) > 0) {
		meta := result.GetMeta()
		if meta == nil {
			meta = map[string]any{}
		}
		meta[sdk.MetaKeyServerInfo] = h.self
		result.SetMeta(meta)
	}
	var about []byte
	switch {
	case !own:
		w.member("result", result)
		return
	case stateless:
		about = h.about
	}
	w.text = append(w.text, `,"result":`...)
	w.result(r, about)
}

// statusOf returns the HTTP status for a JSON-RPC error since 2026-07-28.
func statusOf(code int64) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInvalidParams, sdk.CodeUnsupportedProtocolVersion, sdk.CodeMissingRequiredClientCapabilities:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// maxDirectID is how many bytes the number of a request may have that is written back as it came: a double has each such
// integer.
const maxDirectID = 15

// direct returns the call of a message that the SDK need not see; nil: it has to. The SDK decodes a message a dozen
// times, which costs more than all the rest of a call. What it checks is checked here, and where that fails, or where a
// member is an unusual one, it gets the message and answers.
func (m *message) direct(header http.Header) *sdk.CallToolRequest {
	if m.tool == "" || m.streams || len(m.id) == 0 || m.id[0] == '-' || m.id[0] != '"' && len(m.id) > maxDirectID {
		return nil
	}
	reader := strictjson.Get()
	defer reader.Release()
	if reader.Read(m.body, strictjson.Options{Keep: true}) != nil {
		return nil
	}
	params, ok := reader.Root().Get("params")
	if !ok {
		return nil
	}
	p := &sdk.CallToolParamsRaw{Name: m.tool}
	for name, v := range params.Members() {
		switch string(name.Bytes()) {
		case "name":
			if v.Kind() != strictjson.String {
				return nil
			}
		case "arguments":
			if v.Kind() != strictjson.Object {
				return nil
			}
			p.Arguments = bytes.Clone(v.Raw())
		case "_meta":
			if v.Kind() != strictjson.Object {
				return nil
			}
			p.Meta, _ = v.Any().(map[string]any)
		default:
			return nil
		}
	}
	if !m.isPlain(p, header) {
		return nil
	}
	return &sdk.CallToolRequest{Params: p}
}

// isPlain reports whether the SDK would have nothing against a call, in its revision.
func (m *message) isPlain(p *sdk.CallToolParamsRaw, header http.Header) bool {
	if _, progress := p.Meta["progressToken"]; progress {
		return false
	}
	version, is := p.Meta[sdk.MetaKeyProtocolVersion]
	if !m.isStateless() {
		return !is
	}
	return version == m.version && isOnly(header, "Mcp-Protocol-Version", m.version) &&
		isOnly(header, "Mcp-Method", m.method) && isOnly(header, "Mcp-Name", m.tool) && isClient(p.Meta)
}

// isOnly reports whether a header is there once, with a value.
func isOnly(header http.Header, name, value string) bool {
	values := header.Values(name)
	return len(values) == 1 && values[0] == value
}

// isClient reports whether a client says what it is and can, in the forms that the SDK takes.
func isClient(meta sdk.Meta) bool {
	if info, is := meta[sdk.MetaKeyClientInfo]; is {
		members, _ := info.(map[string]any)
		for name, v := range members {
			if _, text := v.(string); !text || name != "name" && name != "version" && name != "title" {
				return false
			}
		}
		if members == nil {
			return false
		}
	}
	capabilities, is := meta[sdk.MetaKeyClientCapabilities].(map[string]any)
	for name, v := range capabilities {
		members, object := v.(map[string]any)
		switch {
		case !object:
			return false
		case name == "extensions", name == "elicitation", name == "sampling", name == "roots":
			for _, member := range members {
				if inner, object := member.(map[string]any); !object || len(inner) > 0 {
					return false
				}
			}
		default:
			return false
		}
	}
	return is
}

// serveDirect answers a call as the SDK would.
func (h *Handler) serveDirect(ctx context.Context, out http.ResponseWriter, m *message, req *sdk.CallToolRequest) {
	result, err := h.direct(ctx, "tools/call", req)
	httpStatus := http.StatusOK
	w := newWriter(m.id)
	var rpc *jsonrpc.Error
	switch {
	case errors.As(err, &rpc):
		w.member("error", rpcError{rpc.Code, rpc.Message, rpc.Data})
		if m.isStateless() {
			httpStatus = statusOf(rpc.Code)
		}
	case err != nil:
		w.member("error", rpcError{Code: jsonrpc.CodeInternalError, Message: err.Error()})
	default:
		w.result(result, m.isStateless(), h.self)
	}
	if w.err != nil {
		http.Error(out, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	out.Header().Set("Cache-Control", "no-cache, no-transform")
	out.WriteHeader(httpStatus)
	w.text.WriteByte('}')
	_, _ = out.Write(w.text.Bytes()) // the client may be gone
}

// writer writes a response of JSON-RPC.
type writer struct {
	text    bytes.Buffer
	encoder *json.Encoder
	err     error
}

func newWriter(id []byte) *writer {
	w := new(writer)
	w.encoder = json.NewEncoder(&w.text)
	w.encoder.SetEscapeHTML(false)
	w.text.WriteString(`{"jsonrpc":"2.0","id":`)
	w.text.Write(id)
	return w
}

// member writes a further member of an object.
func (w *writer) member(name string, value any) {
	w.text.WriteString(`,"` + name + `":`)
	w.value(value)
}

func (w *writer) value(value any) {
	if err := w.encoder.Encode(value); err != nil {
		w.err = err
		return
	}
	w.text.Truncate(w.text.Len() - 1) // the encoder's end of a line: clients may read a message as one
}

// result writes a result; self is whose it is. One of texts is written piece by piece: the encoder would look at each
// byte of it three times.
func (w *writer) result(result sdk.Result, stateless bool, self *sdk.Implementation) {
	r, texts := result.(*callResult)
	for i := 0; texts && i < len(r.Content); i++ {
		_, texts = r.Content[i].(*sdk.TextContent)
	}
	if !texts {
		if stateless {
			identify(result, self)
		}
		w.member("result", result)
		return
	}
	w.text.WriteString(`,"result":{"content":[`)
	for i, c := range r.Content {
		if i > 0 {
			w.text.WriteByte(',')
		}
		w.text.WriteString(`{"type":"text"`)
		w.member("text", c.(*sdk.TextContent).Text)
		w.text.WriteByte('}')
	}
	w.text.WriteByte(']')
	if len(r.StructuredContent) > 0 {
		w.text.WriteString(`,"structuredContent":`)
		w.text.Write(r.StructuredContent)
	}
	if r.IsError {
		w.text.WriteString(`,"isError":true`)
	}
	if stateless {
		w.member("resultType", r.ResultType)
		w.member("_meta", map[string]any{sdk.MetaKeyServerInfo: self})
	}
	w.text.WriteByte('}')
}

// statusOf is the status of HTTP for an error of JSON-RPC since 2026-07-28.
func statusOf(code int64) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInvalidParams, sdk.CodeUnsupportedProtocolVersion, sdk.CodeMissingRequiredClientCapabilities:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// identify adds to a result whose it is (2026-07-28, Base Protocol).
func identify(result sdk.Result, self *sdk.Implementation) {
	meta := result.GetMeta()
	if meta == nil {
		meta = map[string]any{}
	}
	meta[sdk.MetaKeyServerInfo] = self
	result.SetMeta(meta)
}

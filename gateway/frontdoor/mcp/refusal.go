package mcp

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
)

// codeRefused is the JSON-RPC code of refusals that JSON-RPC has no code for. Its range is the server's own
// (2026-07-28, Base Protocol, "Error Codes").
const codeRefused = -32000

// refusal is an error, as HTTP and as JSON-RPC.
type refusal struct {
	status  int   // HTTP, of a request that the SDK does not see
	code    int64 // JSON-RPC
	message string
	data    refusalData
	more    any    // further members of data; nil: none
	auth    string // WWW-Authenticate; "": none
}

// refusalData are the data of a JSON-RPC error: members of the problem document that the JSON API would answer with.
type refusalData struct {
	Type       string            `json:"type,omitempty"`   // a path of the gateway that explains the reason
	Code       string            `json:"code,omitempty"`   // gRPC code
	Reason     string            `json:"reason,omitempty"` // of docs/errors.md, or a backend's
	Metadata   map[string]string `json:"metadata,omitempty"`
	RetryAfter float64           `json:"retry_after,omitempty"` // seconds
	RequestID  string            `json:"request_id,omitempty"`
	TraceID    string            `json:"trace_id,omitempty"`
}

// Error implements error.
func (f *refusal) Error() string { return f.message }

// refused returns an error that this front door has found.
func refused(httpStatus int, code int64, reason, detail string) *refusal {
	return &refusal{status: httpStatus, code: code, message: detail, data: refusalData{Reason: reason}}
}

// refusalOf returns the error of a gRPC call for a request.
func (h *Handler) refusalOf(r *http.Request, err error) *refusal {
	p := problem.Of(err).In(r)
	f := &refusal{status: p.Status, code: codeOf(p.Code), message: p.Detail, data: refusalData{
		Type: p.Type, Code: p.Code, Reason: p.Reason, Metadata: p.Metadata, RetryAfter: p.RetryAfter,
		RequestID: p.RequestID, TraceID: p.TraceID,
	}}
	if p.Status == http.StatusUnauthorized {
		f.auth = h.challenge(r, status.Challenge(p.Reason))
	}
	return f
}

// codeOf returns the JSON-RPC code for a gRPC code.
func codeOf(code string) int64 {
	switch code {
	case "INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE":
		return jsonrpc.CodeInvalidParams
	case "INTERNAL", "UNKNOWN", "DATA_LOSS":
		return jsonrpc.CodeInternalError
	}
	return codeRefused
}

// rpc returns the error as the SDK sends it, and records that the request is rejected.
func (f *refusal) rpc(r *http.Request) *jsonrpc.Error {
	request.Rejected(r.Context(), f.grpcCode(), f.data.Reason)
	f.data.RequestID = r.Header.Get(problem.RequestID)
	data, _ := json.Marshal(f.data) // texts and numbers always have JSON
	if f.more != nil {
		data = merged(data, f.more)
	}
	return &jsonrpc.Error{Code: f.code, Message: f.message, Data: data}
}

// grpcCode returns the gRPC code of the error.
func (f *refusal) grpcCode() codes.Code {
	if c, ok := code.Code_value[f.data.Code]; ok {
		return codes.Code(c)
	}
	switch f.status {
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	}
	return codes.InvalidArgument
}

// merged adds the members of more to a JSON object.
func merged(object []byte, more any) []byte {
	all, added := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	text, err := json.Marshal(more)
	if err != nil || json.Unmarshal(object, &all) != nil || json.Unmarshal(text, &added) != nil {
		return object
	}
	maps.Copy(all, added)
	if text, err = json.Marshal(all); err != nil {
		return object
	}
	return text
}

// response is a JSON-RPC response with an error.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // null: the request's could not be read
	Error   rpcError        `json:"error"`
}

type rpcError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// refuse answers a request that the SDK does not see.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, m *message, f *refusal) {
	e := f.rpc(r)
	answer := response{Version: "2.0", ID: json.RawMessage("null"), Error: rpcError{e.Code, e.Message, e.Data}}
	if m != nil && m.id != nil {
		answer.ID = m.id
	}
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if f.auth != "" {
		w.Header().Set("WWW-Authenticate", f.auth)
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone; there is nobody left to tell
}

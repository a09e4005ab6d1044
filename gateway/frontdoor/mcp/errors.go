package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
)

// refused returns an error of this front door, with its JSON-RPC code.
func refused(httpStatus int, rpc int64, reason, detail string) error {
	grpc := codes.InvalidArgument
	switch httpStatus {
	case http.StatusNotFound:
		grpc = codes.NotFound
	case http.StatusForbidden:
		grpc = codes.PermissionDenied
	}
	p := problem.Own(httpStatus, grpc, reason, detail)
	p.JSONRPC = rpc
	return &p
}

// invalid returns the error of a message that is not valid in MCP.
func invalid(detail string) error {
	return refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "INVALID_BODY", detail)
}

// invalidParams returns the error of a request whose params are invalid for its method.
func invalidParams(detail string) error {
	return refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "INVALID_BODY", detail)
}

// limited returns the error of a tenant that does something too often, or has too much of something. A wait of 0 means
// that waiting does not help.
func limited(reason string, wait time.Duration, text string) error {
	return status.Answer(&call.Refusal{Kind: call.ResourceExhausted, Reason: reason, RetryAfter: wait,
		Message: text}).Err()
}

// unavailable returns the error of a request that may succeed in a moment.
func unavailable(reason, text string) error {
	return status.Answer(&call.Refusal{Kind: call.Unavailable, Reason: reason, RetryAfter: time.Second,
		Message: text}).Err()
}

// unknownMethod returns the error of a request whose method this server does not have, or not in its revision.
func (m *message) unknownMethod() error {
	httpStatus, detail := http.StatusOK, "this server does not have this method"
	if m.isStateless() {
		httpStatus = http.StatusNotFound // 2026-07-28, Streamable HTTP
		switch m.method {
		case subscribeMethod, unsubscribeMethod:
			detail = "revision 2026-07-28 does not have this method; it has subscriptions/listen instead"
		case "logging/setLevel":
			detail = "revision 2026-07-28 does not have this method; requests have " +
				"io.modelcontextprotocol/logLevel in _meta instead"
		}
	} else if m.method == "subscriptions/listen" || m.method == "server/discover" {
		detail = "earlier revisions do not have this method; send MCP-Protocol-Version: 2026-07-28"
	}
	return refused(httpStatus, jsonrpc.CodeMethodNotFound, "METHOD_UNKNOWN", detail)
}

// Reasons of calls of tools that do not exist, or that the caller may not call.
const (
	toolBlocked       = "TOOL_BLOCKED"
	toolUnknown       = "TOOL_UNKNOWN"
	capabilityUnknown = "CAPABILITY_UNKNOWN"
)

// hidden returns the rejection of a call of a tool that does not exist, or that policy hides from the caller of ctx.
// It only depends on the name and on the tools that the caller may call, or on that they are not known. capability is
// empty if the name belongs to none: clients of MCP know tools alone.
func (h *Handler) hidden(ctx context.Context, name, capability string) error {
	if err := h.cfg.Catalog.Undiscovered(ctx, capability); err != nil {
		return err
	}
	p := problem.Own(http.StatusNotFound, codes.NotFound, toolUnknown,
		fmt.Sprintf("there is no tool %.64q, or a policy hides it%s tools/list has the tools that you may call",
			name, hintOf(name, h.namesIn(ctx, capability)))).NotStarted()
	if p.JSONRPC = jsonrpc.CodeInvalidParams; capability != "" {
		p.Metadata["capability"] = capability
	}
	return &p
}

// hintOf returns the end of a clause, with the name that the client may have meant.
func hintOf(name string, names []string) string { return cmp.Or(nearest.Hint(name, names), ";") }

// maxNamed is the maximum number of tools that are searched for a similar name.
const maxNamed = 1000

// namesIn returns the names of the tools of a capability that the caller of ctx may use; empty means all capabilities.
func (h *Handler) namesIn(ctx context.Context, capability string) (all []string) {
	// After an error, the rejection suggests no tool.
	_ = h.cfg.Catalog.Tools(ctx, capability, func(of string, tools []Tool) bool {
		if capability != "" && of != capability {
			return false
		}
		for i := range tools {
			if name, ok := h.nameOf(ctx, of, tools[i].Name); ok && len(all) < maxNamed {
				all = append(all, name)
			}
		}
		return capability == "" && len(all) < maxNamed
	})
	return all
}

// problemOf returns the problem of a request, for an error of the front door or of a call.
func problemOf(r *http.Request, err error) problem.Problem {
	var own *problem.Problem
	if errors.As(err, &own) {
		p := *own
		p.RequestID = r.Header.Get(problem.RequestID)
		return p
	}
	p := problem.Of(err).In(r)
	p.JSONRPC = status.JSONRPC(codes.Code(code.Code_value[p.Code]))
	if p.Reason == questions.Missing && p.Metadata[questions.Required] != "" && isStateless(r) {
		p.JSONRPC = sdk.CodeMissingRequiredClientCapabilities
	}
	return p
}

// errorData is the data of a JSON-RPC error: members of the equivalent problem document of the JSON API.
type errorData struct {
	Type       string            `json:"type,omitempty"`   // path of the reason's explanation
	Code       string            `json:"code,omitempty"`   // gRPC code
	Reason     string            `json:"reason,omitempty"` // from docs/errors.md, or from a backend
	Metadata   map[string]string `json:"metadata,omitempty"`
	RetryAfter float64           `json:"retry_after,omitempty"` // seconds
	Details    []json.RawMessage `json:"details,omitempty"`     // of a backend's status
	URI        string            `json:"uri,omitempty"`         // of an unknown resource
	RequestID  string            `json:"request_id,omitempty"`
	TraceID    string            `json:"trace_id,omitempty"`

	RequiredCapabilities json.RawMessage `json:"requiredCapabilities,omitempty"` // of the client

	*sdk.UnsupportedProtocolVersionData
}

// rpcOf returns an error for the SDK, and records the rejection of the request.
func rpcOf(r *http.Request, err error) *jsonrpc.Error {
	p := problemOf(r, err)
	request.Rejected(r.Context(), codes.Code(code.Code_value[p.Code]), p.Reason)
	of := errorData{Type: p.Type, Code: p.Code, Reason: p.Reason, Metadata: p.Metadata, RetryAfter: p.RetryAfter,
		Details: p.Details, RequestID: p.RequestID, TraceID: p.TraceID}
	if p.Reason == resourceUnknownReason {
		of.URI = p.Metadata[uriKey]
	}
	switch p.JSONRPC {
	case sdk.CodeUnsupportedProtocolVersion:
		of.UnsupportedProtocolVersionData = &sdk.UnsupportedProtocolVersionData{Supported: versions(),
			Requested: fmt.Sprintf("%.32s", r.Header.Get("Mcp-Protocol-Version"))}
	case sdk.CodeMissingRequiredClientCapabilities:
		of.RequiredCapabilities = requiredBy(&p)
	}
	data, _ := json.Marshal(of) // strings and numbers can always be encoded
	return &jsonrpc.Error{Code: p.JSONRPC, Message: p.Detail, Data: data}
}

// requiredBy returns the capabilities that a client must declare: those for questions of a server, or for tasks.
func requiredBy(p *problem.Problem) json.RawMessage {
	if text := p.Metadata[questions.Required]; text != "" {
		return json.RawMessage(text)
	}
	return json.RawMessage(`{"extensions":{"` + tasksExtension + `":{}}}`)
}

// encoded returns the result or the error of a request for the SDK.
func encoded(ctx context.Context, result sdk.Result, err error) (sdk.Result, error) {
	if err == nil {
		return result, nil
	}
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) {
		return result, err
	}
	return nil, rpcOf(exchangeOf(ctx).r, err)
}

// response is a JSON-RPC error response.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // null means that the id could not be read
	Error   rpcError        `json:"error"`
}

type rpcError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// refuse responds to a request without the SDK.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, m *message, err error) {
	p := problemOf(r, err)
	e := rpcOf(r, &p)
	answer := response{Version: "2.0", ID: json.RawMessage("null"), Error: rpcError{e.Code, e.Message, e.Data}}
	if m != nil && m.id != nil {
		answer.ID = m.id
	}
	text, _ := json.Marshal(answer) // strings and numbers can always be encoded
	w.Header().Set("Content-Type", "application/json")
	if after := status.RetryAfter(p.RetryAfter); after != "" {
		w.Header().Set("Retry-After", after)
	}
	if challenge := p.Challenge(); challenge != "" {
		w.Header().Set("WWW-Authenticate", h.challenge(r, challenge))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // fails only if the client has disconnected
}

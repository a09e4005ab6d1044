package mcp

import (
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/relay"
)

// Keys of _meta that are about a call. Those of traces are MCP's (SEP-414), others are the gateway's own.
const (
	metaIdempotency = "dev.capgate/idempotency-key"
	metaSession     = "dev.capgate/session-id"
	metaThread      = "dev.capgate/thread-id"
	metaApproval    = "dev.capgate/approval" // of a result: the approval that its call waits for
)

// RequestHeaders are the headers of MCP that CORS has to allow.
func RequestHeaders() []string {
	return []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", sessionHeader}
}

// ResponseHeaders are the headers of MCP that CORS has to expose.
func ResponseHeaders() []string { return []string{sessionHeader} }

// about is what a request says of its call.
type about struct {
	fields          []relay.Field // metadata
	session, thread string
	keys            []string // idempotency keys
}

// forwarded are the headers of requests that are metadata of their calls.
func forwarded() []string {
	return []string{problem.RequestID, "X-User-Id", "X-Agent-Id", "Traceparent", "Tracestate", "Baggage"}
}

// aboutCall reads what headers and _meta say. A value in _meta takes the place of the header's.
func aboutCall(header http.Header, meta map[string]any) (a about, f *refusal) {
	for _, name := range forwarded() {
		value := header.Get(name)
		switch key := strings.ToLower(name); key {
		case "traceparent", "tracestate", "baggage":
			value = valueOf(meta, key, value)
		}
		if f = a.add(name, value); f != nil {
			return a, f
		}
	}
	a.session = valueOf(meta, metaSession, header.Get("X-Session-Id"))
	a.thread = valueOf(meta, metaThread, header.Get("X-Thread-Id"))
	if key := valueOf(meta, metaIdempotency, header.Get("Idempotency-Key")); key != "" {
		a.keys = []string{key}
	}
	return a, a.add("X-Session-Id", a.session)
}

// valueOf returns the text of _meta under a key, or other.
func valueOf(meta map[string]any, key, other string) string {
	if text, ok := meta[key].(string); ok {
		return text
	}
	return other
}

func (a *about) add(name, value string) *refusal {
	if value == "" {
		return nil
	}
	for i := range len(value) {
		if value[i] < 0x20 || value[i] > 0x7e {
			return refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "INVALID_HEADER",
				name+" may hold printable ASCII only")
		}
	}
	a.fields = append(a.fields, relay.Field{Name: strings.ToLower(name), Value: value})
	return nil
}

// metadata returns the fields as gRPC has them.
func (a *about) metadata() metadata.MD {
	md := metadata.MD{}
	for _, f := range a.fields {
		md.Append(f.Name, f.Value)
	}
	return md
}

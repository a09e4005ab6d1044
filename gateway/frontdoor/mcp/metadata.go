package mcp

import (
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/relay"
)

// Keys of _meta about a call. Those of traces are MCP's (SEP-414), others are the gateway's.
const (
	metaIdempotency = "dev.capgate/idempotency-key"
	metaSession     = "dev.capgate/session-id"
	metaThread      = "dev.capgate/thread-id"
	metaApproval    = "dev.capgate/approval" // in a result: the approval that its call waits for
	metaError       = "dev.capgate/error"    // in a result with an error: its reason and metadata
)

// Headers implements web.Door.
func (*Handler) Headers() header.Door {
	return header.Door{Request: []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", sessionHeader},
		Response: []string{sessionHeader}}
}

// Timeout implements web.Door.
func (*Handler) Timeout(r *http.Request) (time.Duration, bool) {
	timeout, err := header.Timeout(r.Header)
	return timeout, err == nil && timeout > 0
}

// about holds what a request's headers and _meta say about its call.
type about struct {
	fields          []relay.Field // metadata
	session, thread string
	keys            []string // idempotency keys
	few             [usualFields]relay.Field
}

// forwarded lists the headers that become metadata of calls.
var forwarded = header.With(header.ToMCP) //nolint:gochecknoglobals // a table

// usualFields is the number of fields of most calls.
const usualFields = 4

// readFields reads the headers and _meta. A value in _meta takes precedence over the header.
func (a *about) readFields(h http.Header, m *meta) (f error) {
	a.fields = a.few[:0]
	for i := range forwarded {
		name := forwarded[i].Metadata
		value := forwarded[i].In(h)
		switch name {
		case "traceparent", "tracestate", "baggage":
			value = m.text(name, value)
		}
		if f = a.add(name, value); f != nil {
			return f
		}
	}
	a.session = m.text(metaSession, header.First(h, "X-Session-Id"))
	a.thread = m.text(metaThread, header.First(h, "X-Thread-Id"))
	if key := m.text(metaIdempotency, header.First(h, "Idempotency-Key")); key != "" {
		a.keys = []string{key}
	}
	return a.add("x-session-id", a.session)
}

func (a *about) add(name, value string) error {
	if value == "" {
		return nil
	}
	if !header.IsASCII(value) {
		return refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "INVALID_HEADER",
			http.CanonicalHeaderKey(name)+" may only contain printable ASCII")
	}
	a.fields = append(a.fields, relay.Field{Name: name, Value: value})
	return nil
}

// metadata returns the fields as gRPC metadata.
func (a *about) metadata() metadata.MD {
	md := metadata.MD{}
	for _, f := range a.fields {
		md.Append(f.Name, f.Value)
	}
	return md
}

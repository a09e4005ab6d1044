package mcp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/telemetry"
)

// maxSeries is the maximum number of series of operations. Further tools are counted as otherTool.
const maxSeries = 2000

// otherTool is the label of tools without their own series.
const otherTool = "other"

// operations holds the durations of requests, following OpenTelemetry's conventions for MCP
// (mcp.server.operation.duration). It is safe for concurrent use.
type operations struct {
	mu  sync.Mutex
	all map[operation]*telemetry.Histogram
}

// operation holds the labels of a series.
type operation struct {
	method, tool, failure string
	revision              call.Revision
	unix                  bool // the client is connected to a Unix domain socket
}

// observe counts an operation. The numbers of methods and errors are small, and tools are known ones.
func (o *operations) observe(of operation, d time.Duration) {
	o.mu.Lock()
	h := o.all[of]
	if h == nil {
		if of.tool != "" && len(o.all) >= maxSeries {
			of.tool = otherTool
		}
		if h = o.all[of]; h == nil {
			h = &telemetry.Histogram{Bounds: telemetry.MCPBounds()}
			if o.all == nil {
				o.all = map[operation]*telemetry.Histogram{}
			}
			o.all[of] = h
		}
	}
	o.mu.Unlock()
	h.Observe(d)
}

// Metrics implements metric.Source.
func (h *Handler) Metrics() *metric.Set {
	set, o := metric.New("mcp_server_"), &h.operations
	took := set.Add("operation_duration_seconds",
		"Requests over MCP, by method, tool, error (tool_error, or a JSON-RPC code), revision and transport. "+
			"Unknown tools have no name; tools without a series of their own are other.", "mcp_method_name",
		"gen_ai_tool_name", "error_type", "mcp_protocol_version", "network_transport")
	set.Read = func(w metric.Writer) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for of, durations := range o.all {
			durations.Write(w, took, of.method, of.tool, of.failure, of.revision.String(),
				telemetry.Transport(of.unix))
		}
	}
	return set
}

// measured returns the SDK's middleware that counts requests.
func (h *Handler) measured(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		of, begun := h.operation(ctx, method), time.Now()
		if c, ok := req.(*sdk.CallToolRequest); ok {
			of.tool = h.knownName(ctx, c.Params.Name)
		}
		result, err := next(ctx, method, req)
		of.failure = failureOf(result, err)
		if begun, ok := result.(*sdk.InitializeResult); ok && err == nil { // the header comes with later requests
			of.revision = call.RevisionOf(begun.ProtocolVersion)
		}
		h.operations.observe(of, time.Since(begun))
		return result, err
	}
}

// operation returns the labels of a request that has no error yet.
func (h *Handler) operation(ctx context.Context, method string) operation {
	r := exchangeOf(ctx).r
	return operation{method: method, revision: RevisionOf(r), unix: h.cfg.Unix != nil && h.cfg.Unix(r)}
}

// observing returns the function that counts a request which begins now, and that has no tool.
func (h *Handler) observing(ctx context.Context, method string) func(sdk.Result, error) {
	of, begun := h.operation(ctx, method), time.Now()
	return func(result sdk.Result, err error) {
		of.failure = failureOf(result, err)
		h.operations.observe(of, time.Since(begun))
	}
}

// RevisionOf returns the revision of a request.
func RevisionOf(r *http.Request) call.Revision {
	return call.RevisionOf(header.First(r.Header, "Mcp-Protocol-Version"))
}

// knownName returns the name of a tool at Path, also for a request at a toolset; empty means that no tool has the name.
// Other names, which clients choose, have no series.
func (h *Handler) knownName(ctx context.Context, name string) string {
	capability, tool, ok := h.toolOf(ctx, name)
	if !ok || !h.cfg.Catalog.Known(capability, tool) {
		return ""
	}
	if toolsetOf(ctx) != nil {
		name, _ = h.settings.Load().Names.Of(ctx, capability, tool, h.cfg.Catalog)
	}
	return name
}

// failureOf returns the error.type of an operation; empty means it succeeded.
func failureOf(result sdk.Result, err error) string {
	if err == nil {
		if r, ok := result.(*callResult); ok && r.failed {
			return "tool_error"
		}
		return ""
	}
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) {
		return strconv.FormatInt(rpc.Code, 10)
	}
	return strconv.Itoa(jsonrpc.CodeInternalError)
}

package mcp

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/telemetry"
)

// maxSeries bounds the series of operations. Further tools are otherTool.
const maxSeries = 2000

// otherTool is the label of tools that have no series of their own.
const otherTool = "other"

// operations are the durations of requests by OpenTelemetry's conventions of MCP (mcp.server.operation.duration). They
// are safe for concurrent use.
type operations struct {
	mu  sync.Mutex
	all map[operation]*telemetry.Histogram
}

// operation is the labels of a series.
type operation struct{ method, tool, failure string }

// observe counts an operation. There are few methods and errors; tools are known ones.
func (o *operations) observe(of operation, d time.Duration) {
	o.mu.Lock()
	h := o.all[of]
	if h == nil {
		if of.tool != "" && len(o.all) >= maxSeries {
			of.tool = otherTool
		}
		if h = o.all[of]; h == nil {
			h = new(telemetry.Histogram)
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
		"Requests over MCP, by method, tool and error: tool_error, or a JSON-RPC "+
			"code. Unknown tools have no name; tools without a series of their own are other.", "mcp_method_name",
		"gen_ai_tool_name", "error_type")
	set.Read = func(w metric.Writer) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for of, durations := range o.all {
			durations.Write(w, took, of.method, of.tool, of.failure)
		}
	}
	return set
}

// measured returns the SDK's middleware that counts requests.
func (h *Handler) measured(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		of, begun := operation{method: method}, time.Now()
		if c, ok := req.(*sdk.CallToolRequest); ok {
			if name := c.Params.Name; h.isKnown(ctx, name) {
				of.tool = name
			}
		}
		result, err := next(ctx, method, req)
		of.failure = failureOf(result, err)
		h.operations.observe(of, time.Since(begun))
		return result, err
	}
}

// isKnown reports whether there is a tool of that name. Others, which clients make up, have no series.
func (h *Handler) isKnown(ctx context.Context, name string) bool {
	capability, tool, ok := h.settings.Load().Names.Resolve(ctx, name, h.cfg.Catalog)
	return ok && h.cfg.Catalog.Known(capability, tool)
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

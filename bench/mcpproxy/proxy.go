package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Proxy serves tools/call of one tool at /mcp with Invoke of a backend.
type Proxy struct {
	server *http.Server
	conn   *grpc.ClientConn
}

// New returns a proxy to the backend at an address. tool is the name of the backend's tool.
func New(backend, tool string) (*Proxy, error) {
	conn, err := grpc.NewClient("passthrough:///"+backend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", backend, err)
	}
	capability := docpb.NewCapabilityClient(conn)
	server := sdk.NewServer(&sdk.Implementation{Name: "proxy", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			reply, err := capability.Invoke(ctx, &docpb.InvokeRequest{ToolName: tool, ArgsJson: q.Params.Arguments,
				CapabilityId: "weather"})
			if err != nil {
				return nil, err
			}
			return &sdk.CallToolResult{IsError: reply.GetError() != "",
				StructuredContent: json.RawMessage(reply.GetResultJson()),
				Content:           []sdk.Content{&sdk.TextContent{Text: string(reply.GetResultJson())}}}, nil
		})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &Proxy{conn: conn, server: &http.Server{Handler: mux, Protocols: protocols, ReadHeaderTimeout: time.Minute}},
		nil
}

// Serve accepts connections until Close.
func (p *Proxy) Serve(ln net.Listener) error {
	if err := p.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends all calls and connections.
func (p *Proxy) Close() {
	_ = p.server.Close()
	_ = p.conn.Close()
}

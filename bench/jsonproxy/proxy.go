package jsonproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// MetricsPath is the path of the process's metrics, including its allocations.
const MetricsPath = "/metrics"

// Proxy serves POST /v1/capabilities/{capability_id}/invoke with Invoke of one backend.
type Proxy struct {
	server *http.Server
	conn   *grpc.ClientConn
}

// New returns a proxy to the backend at an address.
func New(backend string) (*Proxy, error) {
	conn, err := grpc.NewClient("passthrough:///"+backend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", backend, err)
	}
	mux := runtime.NewServeMux()
	service := &gateway{capability: docpb.NewCapabilityClient(conn)}
	if err := capgatepb.RegisterGatewayHandlerServer(context.Background(), mux, service); err != nil {
		return nil, fmt.Errorf("register the routes: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	top := http.NewServeMux()
	top.Handle(MetricsPath, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	top.Handle("/", mux)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &Proxy{conn: conn, server: &http.Server{Handler: top, Protocols: protocols, ReadHeaderTimeout: time.Minute}},
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

// gateway calls the backend with the backend's own messages, which have the same fields.
type gateway struct {
	capgatepb.UnimplementedGatewayServer
	capability docpb.CapabilityClient
}

func (g *gateway) Invoke(ctx context.Context, req *capgatepb.InvokeRequest) (*capgatepb.InvokeResponse, error) {
	reply, err := g.capability.Invoke(ctx, &docpb.InvokeRequest{
		ToolName: req.GetToolName(), ArgsJson: req.GetArgsJson(), ConfigJson: req.GetConfigJson(),
		SessionId: req.GetSessionId(), CapabilityId: req.GetCapabilityId(), ThreadId: req.GetThreadId(),
	})
	if err != nil {
		return nil, err
	}
	return &capgatepb.InvokeResponse{ResultJson: reply.GetResultJson(), Error: reply.GetError()}, nil
}

package tracing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/lib/httpclient"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// Retries of failed requests to the collector. Spans queue up meanwhile.
const (
	retryFirst = 500 * time.Millisecond
	retryMax   = 5 * time.Second
	retryUntil = 20 * time.Second
)

// newExporter returns the exporter of a configuration. Only the compression is set by the environment, in
// OTEL_EXPORTER_OTLP_COMPRESSION.
func newExporter(cfg *Config) (sdk.SpanExporter, error) {
	if strings.Contains(cfg.Endpoint, "://") {
		return newHTTP(cfg)
	}
	security := otlptracegrpc.WithInsecure()
	if cfg.TLS != nil {
		security = otlptracegrpc.WithTLSCredentials(credentials.NewTLS(cfg.TLS))
	}
	return otlptracegrpc.New(context.Background(),
		otlptracegrpc.WithEndpoint(cfg.Endpoint), security,
		otlptracegrpc.WithHeaders(cfg.Headers),
		otlptracegrpc.WithTimeout(cfg.Timeout),
		otlptracegrpc.WithDialOption(grpc.WithNoProxy(), grpc.WithUserAgent(agent())),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: retryFirst,
			MaxInterval: retryMax, MaxElapsedTime: retryUntil}),
	)
}

// agent returns the User-Agent of requests to the collector.
func agent() string { return buildinfo.UserAgent("capgate-tracing") }

// standardPath is the path of traces in OTLP over HTTP.
const standardPath = "/v1/traces"

func newHTTP(cfg *Config) (sdk.SpanExporter, error) {
	u, err := weburl.Parse(cfg.Endpoint, "http://collector:4318")
	if err != nil {
		return nil, fmt.Errorf("the endpoint %w", err)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = standardPath
	}
	headers := map[string]string{"User-Agent": agent()} // in place of the exporter's
	for name, value := range cfg.Headers {
		headers[http.CanonicalHeaderKey(name)] = value
	}
	client := httpclient.New(httpclient.Config{TLS: cfg.TLS, Timeout: cfg.Timeout, Handshake: cfg.Timeout, MaxIdle: 2})
	exporter, err := otlptrace.New(context.Background(), otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(u.String()),
		otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: retryFirst,
			MaxInterval: retryMax, MaxElapsedTime: retryUntil}),
	))
	return httpExporter{exporter, client}, err
}

// httpExporter closes its connections at the end.
type httpExporter struct {
	*otlptrace.Exporter
	client *http.Client
}

func (e httpExporter) Shutdown(ctx context.Context) error {
	defer e.client.CloseIdleConnections()
	return e.Exporter.Shutdown(ctx)
}

// why returns an error of the collector for the log, which may be long.
func why(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return plain(err.Error())
}

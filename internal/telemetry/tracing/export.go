package tracing

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
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
		otlptracegrpc.WithDialOption(grpc.WithNoProxy()),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: retryFirst,
			MaxInterval: retryMax, MaxElapsedTime: retryUntil}),
	)
}

// standardPath is the path of traces in OTLP over HTTP.
const standardPath = "/v1/traces"

func newHTTP(cfg *Config) (sdk.SpanExporter, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the endpoint is not an HTTP URL")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = standardPath
	}
	transport := &http.Transport{TLSClientConfig: cfg.TLS, ForceAttemptHTTP2: true, MaxIdleConns: 2,
		IdleConnTimeout: time.Minute, TLSHandshakeTimeout: cfg.Timeout}
	client := &http.Client{Transport: transport, Timeout: cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the headers are only for the endpoint
		}}
	exporter, err := otlptrace.New(context.Background(), otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(u.String()),
		otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithHeaders(cfg.Headers),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: retryFirst,
			MaxInterval: retryMax, MaxElapsedTime: retryUntil}),
	))
	return httpExporter{exporter, transport}, err
}

// httpExporter closes its connections at the end.
type httpExporter struct {
	*otlptrace.Exporter
	transport *http.Transport
}

func (e httpExporter) Shutdown(ctx context.Context) error {
	defer e.transport.CloseIdleConnections()
	return e.Exporter.Shutdown(ctx)
}

// why returns an error of the collector for the log, which may be long.
func why(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return plain(err.Error())
}

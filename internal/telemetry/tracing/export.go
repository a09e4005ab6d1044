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

// How requests that the collector could not take are made again. Spans queue up meanwhile.
const (
	retryFirst = 500 * time.Millisecond
	retryMax   = 5 * time.Second
	retryUntil = 20 * time.Second
)

// newExporter makes what speaks to the collector. The configuration says all of it but the
// compression, which the environment's OTEL_EXPORTER_OTLP_COMPRESSION may ask for.
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

// standardPath is where collectors take traces over HTTP.
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
			return http.ErrUseLastResponse // the headers are for the endpoint alone
		}}
	exporter, err := otlptrace.New(context.Background(), otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(u.String()),
		otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithHeaders(cfg.Headers),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: retryFirst,
			MaxInterval: retryMax, MaxElapsedTime: retryUntil}),
	))
	return webExporter{exporter, transport}, err
}

// webExporter leaves no connection behind.
type webExporter struct {
	*otlptrace.Exporter
	transport *http.Transport
}

func (e webExporter) Shutdown(ctx context.Context) error {
	defer e.transport.CloseIdleConnections()
	return e.Exporter.Shutdown(ctx)
}

// why is an error of the collector as the log gets it: what it answers may be long.
func why(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return plain(err.Error())
}

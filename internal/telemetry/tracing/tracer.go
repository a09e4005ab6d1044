package tracing

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// Config says where spans go, and which. Endpoint is required.
type Config struct {
	Endpoint     string            // of a collector: host:port, for OTLP over gRPC, or a URL, for OTLP over HTTP
	TLS          *tls.Config       // nil: cleartext for host:port and http, the system's authorities for https
	Headers      map[string]string // sent with every request; may be secrets
	Sample       float64           // share of the calls that begin a trace here which are traced, 0 to 1
	IgnoreParent bool              // Sample alone decides, and not the caller
	Service      string            // service.name
	Version      string            // service.version
	Instance     string            // service.instance.id
	Queue        int               // spans that wait for the collector, at most; more are dropped. Default 4096
	Timeout      time.Duration     // of one request; default 10s
	Delay        time.Duration     // how long spans wait for others; default 1s
	Log          *slog.Logger      // is told when the collector is lost and returns; nil: discard
}

// Tracer makes spans. It is safe for concurrent use, and nil is one that samples nothing.
type Tracer struct {
	tracer       trace.Tracer
	provider     *sdk.TracerProvider
	outbox       *exportQueue
	sample       float64
	ignoreParent bool
}

// maxText bounds strings in spans, in bytes. Callers choose some of them.
const maxText = 128

// New starts a Tracer, which Close ends. It fails for what is no endpoint, and not where there is
// nobody.
func New(cfg Config) (*Tracer, error) {
	if cfg.Queue == 0 {
		cfg.Queue = 4096
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Delay == 0 {
		cfg.Delay = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	exporter, err := newExporter(&cfg)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	t := &Tracer{outbox: newOutbox(exporter, &cfg), sample: cfg.Sample, ignoreParent: cfg.IgnoreParent}
	t.provider = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), // Samples is asked before
		sdk.WithIDGenerator(ids{}),
		sdk.WithRawSpanLimits(sdk.SpanLimits{
			AttributeValueLengthLimit: maxText, AttributeCountLimit: 64, EventCountLimit: 64, LinkCountLimit: 8,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
		}),
		// The environment's OTEL_RESOURCE_ATTRIBUTES are added to these.
		sdk.WithResource(resource.NewSchemaless(serviceName.String(cfg.Service), serviceVersion.String(cfg.Version),
			serviceInstance.String(cfg.Instance))),
		sdk.WithSpanProcessor(t.outbox),
	)
	t.tracer = t.provider.Tracer("github.com/capgate/capgate", trace.WithSchemaURL(schemaURL))
	return t, nil
}

// Samples says whether a call is traced: as its caller says, or else by chance.
func (t *Tracer) Samples(p Parent) bool {
	switch {
	case p.sampled:
		return p.trace.IsValid()
	case p.exists() && !t.ignoreParent:
		return p.flags.IsSampled()
	}
	return rand.Float64() < t.sample
}

// Start begins the span of a call that came at a time, as a child of parent or of nobody.
func (t *Tracer) Start(parent Parent, tracestate string, c *call.Call, came time.Time) *Span {
	ctx := context.Background()
	switch {
	case parent.exists():
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent.context(tracestate))
	case parent.sampled:
		ctx = context.WithValue(ctx, sampledKey{}, parent.trace)
	}
	name, attrs := rpc(c.Path)
	s := &Span{tracer: t.tracer}
	s.ctx, s.server = t.tracer.Start(ctx, name, trace.WithTimestamp(came), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attrs...))
	return s
}

// rpc is what a path, /package.Service/Method, says of a span.
func rpc(path string) (name string, attrs []attribute.KeyValue) {
	name = plain(strings.TrimPrefix(call.WithoutQuery(path), "/"))
	service, method := name, ""
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		service, method = name[:i], name[i+1:]
	}
	return name, []attribute.KeyValue{rpcSystem, rpcService.String(service), rpcMethod.String(method)}
}

// plain is a text as spans can have it: UTF-8, not too long, and their own.
func plain(s string) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), maxText)], "?"))
}

// Stats are what became of spans so far.
func (t *Tracer) Stats() telemetry.Traces { return t.outbox.stats() }

// Close sends what waits until ctx ends, and then nothing any more.
func (t *Tracer) Close(ctx context.Context) { t.outbox.close(ctx) }

package tracing

import (
	"context"
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
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Tracer creates spans. It is safe for concurrent use. A nil Tracer samples nothing.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdk.TracerProvider
	queue    *exportQueue
	sample   float64
	follow   bool
}

// maxText bounds strings in spans, in bytes. Callers choose some of them.
const maxText = 128

// New starts a Tracer, which Close ends. It fails for an invalid endpoint, not for an unavailable one.
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
	t := &Tracer{queue: newExportQueue(exporter, &cfg), sample: cfg.Sample, follow: cfg.Follow}
	t.provider = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), // Samples has decided
		sdk.WithIDGenerator(ids{}),
		sdk.WithRawSpanLimits(sdk.SpanLimits{
			AttributeValueLengthLimit: maxText, AttributeCountLimit: 64, EventCountLimit: 64, LinkCountLimit: 8,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
		}),
		sdk.WithResource(resourceOf(&cfg)),
		sdk.WithSpanProcessor(t.queue),
	)
	t.tracer = t.provider.Tracer("github.com/capgate/capgate", trace.WithSchemaURL(schemaURL))
	return t, nil
}

// resourceOf returns the resource of the spans: the environment's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, with
// the program's own version and instance.
func resourceOf(cfg *Config) *resource.Resource {
	own := resource.NewSchemaless(serviceVersion.String(cfg.Version), serviceInstance.String(cfg.Instance))
	for _, next := range []*resource.Resource{resource.Environment(),
		resource.NewSchemaless(serviceName.String("capgate"))} {
		if merged, err := resource.Merge(next, own); err == nil { // else the environment's is of another schema
			own = merged
		}
	}
	return own
}

// Samples reports whether a call is traced: as its caller decided, or else at random.
func (t *Tracer) Samples(p Parent) bool {
	switch {
	case p.sampled:
		return p.trace.IsValid()
	case p.exists() && t.follow:
		return p.flags.IsSampled()
	}
	return rand.Float64() < t.sample
}

// Start starts the span of a call that arrived at came, as a child of parent or as a root.
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

// rpc returns the name and attributes of a span for a path, /package.Service/Method.
func rpc(path string) (name string, attrs []attribute.KeyValue) {
	name = plain(strings.TrimPrefix(call.WithoutQuery(path), "/"))
	return name, []attribute.KeyValue{rpcSystem, rpcMethod.String(name)}
}

// plain returns a text for a span: a bounded copy in valid UTF-8.
func plain(s string) string {
	return strings.Clone(untrusted.Cut(s, maxText))
}

// Close sends the waiting spans until ctx ends, and stops.
func (t *Tracer) Close(ctx context.Context) { t.queue.close(ctx) }

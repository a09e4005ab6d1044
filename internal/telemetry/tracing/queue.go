package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// maxBatch is the greatest number of spans in one request.
const maxBatch = 512

// exportQueue adds to the SDK's queue of spans a bound that includes spans being sent, and counts of lost spans. It
// wraps both ends of the queue: as its processor, and as its exporter.
type exportQueue struct {
	queue    sdk.SpanProcessor
	exporter sdk.SpanExporter
	log      *slog.Logger
	most     int64

	waiting     atomic.Int64
	exported    atomic.Int64
	full        atomic.Int64
	failed      atomic.Int64
	unavailable atomic.Bool // the last batch could not be sent

	closed  atomic.Bool
	sending context.Context // canceled at the end of the time to close
	giveUp  context.CancelFunc
	done    chan struct{} // closed when the exporter has ended
}

func newExportQueue(exporter sdk.SpanExporter, cfg *Config) *exportQueue {
	o := &exportQueue{exporter: exporter, log: cfg.Log, most: int64(cfg.Queue), done: make(chan struct{})}
	o.sending, o.giveUp = context.WithCancel(context.Background())
	o.queue = sdk.NewBatchSpanProcessor(batchExporter{o},
		sdk.WithMaxQueueSize(cfg.Queue), sdk.WithMaxExportBatchSize(min(maxBatch, cfg.Queue)),
		sdk.WithBatchTimeout(cfg.Delay), sdk.WithExportTimeout(retryUntil+cfg.Timeout))
	return o
}

// OnStart implements sdk.SpanProcessor.
func (o *exportQueue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor. It does not block.
func (o *exportQueue) OnEnd(s sdk.ReadOnlySpan) {
	if o.waiting.Add(1) > o.most || o.closed.Load() {
		o.waiting.Add(-1)
		o.full.Add(1)
		return
	}
	o.queue.OnEnd(s)
}

// ForceFlush implements sdk.SpanProcessor.
func (o *exportQueue) ForceFlush(ctx context.Context) error { return o.queue.ForceFlush(ctx) }

// Shutdown implements sdk.SpanProcessor.
func (o *exportQueue) Shutdown(ctx context.Context) error {
	o.close(ctx)
	return nil
}

// close sends waiting spans until ctx ends. The rest is counted as failed.
func (o *exportQueue) close(ctx context.Context) {
	o.closed.Store(true)
	defer context.AfterFunc(ctx, o.giveUp)()
	_ = o.queue.Shutdown(ctx) // its only error is that of ctx
	select {
	case <-o.done:
	case <-time.After(time.Second): // the exporter ignores its context
	}
	o.giveUp()
}

// batchExporter is the exportQueue as the exporter of the SDK's queue.
type batchExporter struct{ *exportQueue }

// ExportSpans implements sdk.SpanExporter. It returns no error, which would go to the SDK's process-wide handler.
func (o batchExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.sending, cancel)()
	err := ctx.Err()
	if err == nil {
		err = o.exporter.ExportSpans(ctx, spans)
	}
	o.waiting.Add(-int64(len(spans)))
	if err != nil {
		o.failed.Add(int64(len(spans)))
		if !o.unavailable.Swap(true) {
			o.log.Warn("spans cannot be sent to the collector; calls are not delayed", "error", why(err))
		}
		return nil
	}
	o.exported.Add(int64(len(spans)))
	if o.unavailable.Swap(false) {
		o.log.Info("spans are sent again")
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (o batchExporter) Shutdown(ctx context.Context) error {
	defer close(o.done)
	return o.exporter.Shutdown(ctx)
}

package app

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// flushTime is the time for which the process waits at its end for a collector to take the last spans.
const flushTime = 3 * time.Second

// tracesFeature traces calls, if there is a collector.
func tracesFeature() feature {
	var tracer *tracing.Tracer
	return feature{
		build: func(p *App) (err error) {
			c := p.started.Config.Traces
			if c.Endpoint == "" {
				return nil
			}
			c.TLS, c.Headers = p.started.Backends[c.Files], p.started.TraceHeaders
			c.Version, c.Instance, c.Log = p.options.Version, p.replica, p.log
			if tracer, err = tracing.New(c); err != nil {
				return err
			}
			p.parts.Observe.Tracer = tracer
			return p.metrics.Add(tracer)
		},
		close: func(*App) { // sends the last spans
			if tracer != nil {
				ctx, cancel := context.WithTimeout(context.Background(), flushTime)
				defer cancel()
				tracer.Close(ctx)
			}
		},
	}
}

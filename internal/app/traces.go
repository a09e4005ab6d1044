package app

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// flushTime is how long the process waits at its end for a collector to take the last spans.
const flushTime = 3 * time.Second

// tracesFeature traces calls, if there is a collector.
func tracesFeature() feature {
	var tracer *tracing.Tracer
	return feature{
		build: func(p *App) (err error) {
			c := &p.started.Config.Traces
			if c.Endpoint == "" {
				return nil
			}
			tracer, err = tracing.New(tracing.Config{
				Endpoint: c.Endpoint, TLS: p.started.Backends[c.TLS], Headers: p.started.TraceHeaders, Sample: c.Sample,
				IgnoreParent: !c.Follow, Version: p.options.Version, Instance: p.replica,
				Log: p.log,
			})
			if err != nil {
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

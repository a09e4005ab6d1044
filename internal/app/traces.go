package app

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// flushTime is how long the process waits at its end for a collector to take the last spans.
const flushTime = 3 * time.Second

// newTracer makes what traces calls, if there is a collector.
func (p *App) newTracer(s *settings.Settings, metrics *telemetry.Metrics) (err error) {
	c := &s.Config.Traces
	if c.Endpoint == "" {
		return nil
	}
	p.tracer, err = tracing.New(tracing.Config{
		Endpoint: c.Endpoint, TLS: s.Backends[c.TLS], Headers: s.TraceHeaders, Sample: c.Sample, IgnoreParent: !c.Follow,
		Service: c.Service, Version: p.options.Version, Instance: p.replica, Queue: c.Queue, Timeout: c.Timeout, Log: p.log,
	})
	if err != nil {
		return err
	}
	return metrics.Add(p.tracer)
}

// closeTracer sends what spans there still are.
func (p *App) closeTracer() {
	if p.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	p.tracer.Close(ctx)
}

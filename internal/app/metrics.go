package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/telemetry"
)

// metricsFeature has the metrics, and records what ends a call.
func metricsFeature() feature {
	return feature{build: func(p *App) (err error) {
		c := p.started.Config.Metrics
		c.Version, c.Revision, c.Log = p.options.Version, p.options.Revision, p.accessLog
		if p.metrics, err = telemetry.NewMetrics(prometheus.NewRegistry(), c); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		p.parts.Observe.Metrics, p.parts.Observe.Recorder = p.metrics, telemetry.NewRecorder(p.metrics, p.accessLog)
		return nil
	}}
}

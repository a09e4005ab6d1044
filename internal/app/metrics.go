package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/telemetry"
)

// metricsFeature has the metrics, and records what ends a call.
func metricsFeature() feature {
	return feature{build: func(p *App) (err error) {
		p.metrics, err = telemetry.NewMetrics(prometheus.NewRegistry(), telemetry.MetricsConfig{
			Version: p.options.Version, Revision: p.options.Revision, Log: p.accessLog,
			Tenants: p.started.Config.Metrics.Tenants, Tools: p.started.Config.Metrics.Tools,
			Backends: p.started.Config.Metrics.Backends})
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		p.parts.Observe.Metrics, p.parts.Observe.Recorder = p.metrics, telemetry.NewRecorder(p.metrics, p.accessLog)
		return nil
	}}
}

package app

import (
	"log/slog"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/telemetry"
)

// callLineDelay is the time for which the line of a call waits for others. A person notices no delay.
const callLineDelay = 20 * time.Millisecond

// logsFeature has the log, and the log of calls: as records of the log, or shortened for a terminal.
func logsFeature() feature {
	level := new(slog.LevelVar) // of both logs
	return feature{
		build: func(p *App) error {
			cfg := p.started.Config.Log
			level.Set(cfg.Level)
			p.log = telemetry.NewLogger(cfg.Format, level, p.options.Log)
			recovery.LogTo(p.log)
			p.parts.Log = p.log
			if lines := p.started.CallLines; lines != nil {
				p.accessLog = telemetry.NewAccessLog(lines, telemetry.AccessLogConfig{Interval: callLineDelay})
			} else {
				p.accessLog = telemetry.NewAccessLog(p.options.Log,
					telemetry.AccessLogConfig{Level: level, Text: cfg.Format == "text"})
			}
			return nil
		},
		apply: func(_ *App, c *change) { level.Set(c.Config.Log.Level) },
		close: func(p *App) { _ = p.accessLog.Close() },
	}
}

package cli

import (
	"io"
	"log/slog"

	"github.com/capgate/capgate/internal/telemetry"
)

// newLogger creates the log.
func newLogger(format string, level slog.Leveler, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// accessLog creates the log of calls: in the log itself, or for a person who watches.
func (s *settings) accessLog(w io.Writer, level slog.Leveler) *telemetry.AccessLog {
	if s.calls != nil {
		return telemetry.NewAccessLog(s.calls, telemetry.AccessLogConfig{Interval: callLineDelay})
	}
	return telemetry.NewAccessLog(w, telemetry.AccessLogConfig{Level: level, Text: s.cfg.Log.Format == "text"})
}

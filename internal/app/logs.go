package app

import (
	"io"
	"log/slog"
	"time"

	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
)

// newAccessLog creates the log of calls: in the log itself, or for a person who watches.
func newAccessLog(s *settings.Settings, w io.Writer, level slog.Leveler) *telemetry.AccessLog {
	if s.CallLines != nil {
		return telemetry.NewAccessLog(s.CallLines, telemetry.AccessLogConfig{Interval: callLineDelay})
	}
	return telemetry.NewAccessLog(w, telemetry.AccessLogConfig{Level: level, Text: s.Config.Log.Format == "text"})
}

// callLineDelay is how long the line of a call waits for others. A person notices no delay.
const callLineDelay = 20 * time.Millisecond

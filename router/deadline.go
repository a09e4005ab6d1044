package router

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Deadlines bound the duration of a fleet's calls. A zero field takes its default.
type Deadlines struct {
	Default time.Duration // of a unary call without a deadline; default 120 s, but never more than Max
	Max     time.Duration // of any unary call; default 15 min
	Stream  time.Duration // of a streaming call, with or without a deadline; default 1 h
}

func (d Deadlines) withDefaults() Deadlines {
	if d.Max <= 0 {
		d.Max = 15 * time.Minute
	}
	if d.Default <= 0 {
		d.Default = 120 * time.Second
	}
	d.Default = min(d.Default, d.Max)
	if d.Stream <= 0 {
		d.Stream = time.Hour
	}
	return d
}

// For returns the time that a call may take: its own deadline, if it has one, within the fleet's
// limit. RPCs outside the capability protocol may be streams, so the streams' limit applies to them.
func (d Deadlines) For(m call.Method, asked time.Duration, has bool) time.Duration {
	limit, fallback := d.Stream, d.Stream
	if m == call.Invoke || m == call.Healthcheck {
		limit, fallback = d.Max, d.Default
	}
	if !has {
		return fallback
	}
	return min(asked, limit)
}

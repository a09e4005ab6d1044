package router

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Deadlines are the limits that a fleet sets on how long calls may take. A zero
// field takes its default.
type Deadlines struct {
	Default time.Duration // of a unary call whose caller names none; default 120 s, but never more than Max
	Max     time.Duration // of any unary call; default 15 min
	Stream  time.Duration // of any call that streams, and of one whose caller names none; default 1 h
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

// For returns how long a call may take: what its caller asked for, if it did,
// within the fleet's limit. RPCs outside the capability protocol may be streams,
// so they get the streams' limit.
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

package router

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Deadlines bound the duration of a fleet's calls. A zero field takes its default. The tags and the comments of the
// fields are those of the configuration, which internal/config reads.
type Deadlines struct {
	// Off is true for deadline: off: only a caller's own deadline ends calls of the services of a fleet. It is for
	// services that are not capabilities, whose streams may last for days.
	Off bool `yaml:"-" enum:"off" scalar:""`
	// Deadline of a unary call whose caller sets none; at most max.
	Default time.Duration `yaml:"default" above:"0" default:"120s"`
	// Maximum deadline of a unary call.
	Max time.Duration `yaml:"max" above:"0" default:"15m"`
	// Maximum duration of a streaming call, with or without a deadline.
	Stream time.Duration `yaml:"stream" above:"0" default:"1h"`
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
// limit. RPCs outside the capability protocol may be streams, so the streams' limit applies to them, or
// none: then the time is 0 without a deadline of its own.
func (d Deadlines) For(m call.Method, asked time.Duration, has bool) time.Duration {
	if d.Off && m == call.Other {
		return asked
	}
	limit, fallback := d.Stream, d.Stream
	if m == call.Invoke || m == call.Healthcheck {
		limit, fallback = d.Max, d.Default
	}
	if !has {
		return fallback
	}
	return min(asked, limit)
}

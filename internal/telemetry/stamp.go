package telemetry

import (
	"sync/atomic"
	"time"
)

// clock caches the formatted second, because formatting costs more than the rest of a line.
type clock struct {
	now atomic.Pointer[second]
}

// second is a formatted second in a time zone. It is immutable.
type second struct {
	unix   int64
	zone   *time.Location
	prefix string // 2006-01-02T15:04:05
	suffix string // Z07:00
}

// stamp is a time to be formatted.
type stamp struct {
	*second
	nanos uint32
}

// at returns t's stamp. It allocates once a second.
func (c *clock) at(t time.Time) stamp {
	s := c.now.Load()
	if s == nil || s.unix != t.Unix() || s.zone != t.Location() {
		s = &second{unix: t.Unix(), zone: t.Location(), prefix: t.Format("2006-01-02T15:04:05"),
			suffix: t.Format("Z07:00")}
		c.now.Store(s)
	}
	return stamp{s, uint32(t.Nanosecond())}
}

// appendNanos formats the stamp as time.RFC3339Nano does: without trailing zeros.
func (s stamp) appendNanos(b []byte) []byte {
	b = append(b, s.prefix...)
	if s.nanos != 0 {
		b = append(b, '.')
		b = appendFraction(b, s.nanos, 9, true)
	}
	return append(b, s.suffix...)
}

// appendMillis formats the stamp with three decimals.
func (s stamp) appendMillis(b []byte) []byte {
	b = append(b, s.prefix...)
	b = append(b, '.')
	b = appendFraction(b, s.nanos/1e6, 3, false)
	return append(b, s.suffix...)
}

package http1

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Date caches the current time in the form of the Date header (RFC 9110 §5.6.7). The zero value is ready for use.
type Date struct{ last atomic.Pointer[dateText] }

type dateText struct {
	second int64
	text   string
}

// Now returns the current time.
func (d *Date) Now() string {
	t := time.Now()
	last := d.last.Load()
	if last == nil || last.second != t.Unix() {
		last = &dateText{t.Unix(), t.UTC().Format(http.TimeFormat)}
		d.last.Store(last)
	}
	return last.text
}

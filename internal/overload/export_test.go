package overload

import (
	"io/fs"
	"time"
)

// Processor returns the part of delays that is a process's own, if it has so many processors.
func Processor(root fs.FS, cpus int) (own func(delay, most time.Duration, now time.Time) time.Duration) {
	p := newProcessor(root)
	p.cpus = cpus
	return p.ownDelay
}

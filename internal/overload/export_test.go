package overload

import (
	"io/fs"
	"time"
)

// Processor is how much of delays is a process's own, which has so many processors.
func Processor(root fs.FS, cpus int) (own func(delay, most time.Duration, now time.Time) time.Duration) {
	p := newProcessor(root)
	p.cpus = cpus
	return p.ownDelay
}

package app

import (
	"os"
	"runtime/debug"

	"github.com/capgate/capgate/internal/lib/gcpace"
	"github.com/capgate/capgate/internal/lib/memlimit"
)

// The heap to which a busy process may grow before it is collected: a fraction of its memory and of
// overload.max_memory, up to a size. See internal/lib/gcpace.
const (
	busyHeapFraction = 8
	mostBusyHeap     = 128 << 20
)

// collectorFeature keeps the garbage collector from running often while the process is busy.
func collectorFeature() feature {
	return feature{run: func(p *App, w *work) {
		size := min(memlimit.Bytes(os.DirFS("/"), debug.SetMemoryLimit(-1)), mostBusyHeap*busyHeapFraction)
		if most := p.started.Config.Overload.MaxMemory; most > 0 {
			size = min(size, most)
		}
		w.loop("collector", gcpace.New(size/busyHeapFraction).Run)
	}}
}

package app

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/memlimit"
	"github.com/capgate/capgate/internal/overload"
)

// Fractions of the process' memory limit.
const (
	// callMemory is the share of a call in flight, in bytes: an idle one takes 2 KiB, one that waits for its reader up
	// to 128 KiB.
	callMemory   = 16 << 10
	memoryTarget = 0.9  // of the memory is the collector's to keep the process below
	liveFraction = 0.75 // live heap; garbage since the last collection takes the rest
)

// Maximum wait of the oldest bytes. Without tenants, callers only delay themselves.
const (
	sharedDelay = 10 * time.Millisecond
	singleDelay = 100 * time.Millisecond
)

// Fractions of the live heap. Calls, requests and connections get three quarters; the rest is for the process
// itself and for garbage. An eighth of that is for incomplete request bodies in the front doors, which may exist
// in up to four copies. The longest message has to fit.
const (
	bodyFraction = 8
	leastHeld    = 24 << 20
	mostHeld     = 1 << 30
)

// memoryPools holds the numbers of bytes that may be given out: in all, in each shard of the relay, and in the front
// doors.
type memoryPools struct{ all, shard, bodies int64 }

// newMemoryPools divides the live heap of a process, in bytes; 0: unknown.
func newMemoryPools(memory int64) memoryPools {
	if memory == 0 {
		memory = math.MaxInt64
	}
	shards := int64(runtime.GOMAXPROCS(0))
	return memoryPools{
		all:    max(min(memory/4*3, 2*mostHeld), 2*leastHeld),
		shard:  max(min(memory, mostHeld/shards), leastHeld),
		bodies: max(min(memory/bodyFraction, mostHeld), leastHeld),
	}
}

// overloadFeature rejects calls beyond the limits of the process, and divides its memory.
func overloadFeature() feature {
	return feature{
		build: func(p *App) error {
			shedder, live := newShedder(p.started.Config, p.log)
			share := newMemoryPools(live)
			p.parts.Capacity = gateway.Capacity{MaxMemory: share.all, MaxBodies: share.bodies, Overload: shedder}
			p.parts.Relay = p.relayConfig(p.started, share)
			return nil
		},
		run: func(p *App, w *work) { w.loop("overload", p.watchOverload) },
	}
}

// newShedder sets up load shedding; nil: it is off. live is the bytes of the live heap; 0: unknown.
func newShedder(whole *config.Config, log *slog.Logger) (shedder *overload.Shedder, live int64) {
	limits := whole.Overload
	have := memlimit.Bytes(os.DirFS("/"), debug.SetMemoryLimit(-1))
	if live = limits.MaxMemory; live == 0 {
		live = int64(float64(have) * liveFraction)
	}
	if limits.Off {
		return shedder, live
	}
	limits.MaxMemory, limits.Log = live, log
	if limits.MaxDelay == 0 {
		if limits.MaxDelay = singleDelay; whole.Multi {
			limits.MaxDelay = sharedDelay
		}
	}
	if have > 0 {
		if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT does not say
			debug.SetMemoryLimit(int64(float64(have) * memoryTarget))
		}
		limits.MaxInFlight = have / callMemory
	}
	shedder = overload.New(limits)
	log.Info("limits of load shedding", "max_in_flight", limits.MaxInFlight,
		"max_memory", limits.MaxMemory, "max_delay", limits.MaxDelay.String(),
		"memory", have, "memory_limit", debug.SetMemoryLimit(-1)) // that of Go's garbage collector
	return shedder, live
}

// watchOverload runs until ctx ends.
func (p *App) watchOverload(ctx context.Context) {
	if p.parts.Capacity.Overload == nil {
		return
	}
	if err := p.parts.Capacity.Overload.Watch(ctx, p.gateway.Turn); err != nil {
		p.log.Error("load shedding is off", "error", err)
	}
}

package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/observe"
	"github.com/capgate/capgate/internal/overload"
)

// Of what the process may have.
const (
	callMemory  = 16 << 10 // bytes for each call in flight: an idle one takes two, one that waits for its reader up to 128
	collectable = 0.9      // of the memory is the collector's to keep the process below
	liveable    = 0.75     // of it may live: what has died since the last collection takes the rest
)

// How long bytes may wait for their turn. Without tenants nobody is harmed but by themselves.
const (
	sharedDelay = 10 * time.Millisecond
	lonelyDelay = 100 * time.Millisecond
)

// newShedder finds out what is too much for this process.
func (p *process) newShedder(whole *config.Config, metrics *observe.Metrics) {
	cfg := whole.Overload
	if cfg.Off {
		return
	}
	have := memoryLimit(os.DirFS("/"), debug.SetMemoryLimit(-1))
	limits := overload.Config{MaxInFlight: int64(cfg.MaxInFlight), MaxMemory: cfg.MaxMemory, MaxDelay: cfg.MaxDelay}
	if limits.MaxDelay == 0 {
		if limits.MaxDelay = lonelyDelay; whole.Multi {
			limits.MaxDelay = sharedDelay
		}
	}
	if have > 0 {
		if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT does not say
			debug.SetMemoryLimit(int64(float64(have) * collectable))
		}
		if limits.MaxInFlight == 0 {
			limits.MaxInFlight = have / callMemory
		}
		if limits.MaxMemory == 0 {
			limits.MaxMemory = int64(float64(have) * liveable)
		}
	}
	p.shedder = overload.New(limits)
	metrics.WatchOverload(func() observe.Overload { return observe.Overload(p.shedder.Usage()) })
	p.log.Info("what this process takes before it turns calls away", "max_in_flight", limits.MaxInFlight, "max_memory", limits.MaxMemory, "max_delay", limits.MaxDelay.String())
}

// watchOverload runs until ctx ends.
func (p *process) watchOverload(ctx context.Context) {
	if p.shedder == nil {
		return
	}
	if err := p.shedder.Watch(ctx, p.gateway.Turn); err != nil {
		p.log.Error("calls are not turned away for want of memory or time", "error", err)
	}
}

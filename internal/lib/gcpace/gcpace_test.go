package gcpace

import (
	"context"
	"runtime/debug"
	"testing"
)

// TestNext: while collections are frequent, a small heap may grow to the size; a large one, and one of a process that
// is no longer busy, may double.
func TestNext(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	p := New(128 * mib)
	cycles := uint64(0)
	for i, step := range []struct {
		ticks   int // without a collection, before the one of this step; negative means that none follows
		live    int64
		percent int
	}{
		{0, 24 * mib, 100},   // the first one is not frequent
		{10, 24 * mib, 100},  // neither is one a second later
		{2, 24 * mib, 100},   // a burst
		{2, 28 * mib, 312},   // (128-28)/(28+4)
		{9, 30 * mib, 312},   // a small change
		{9, 12 * mib, 725},   // the next second
		{9, 80 * mib, 100},   // more than half
		{0, 28 * mib, 100},   //
		{0, 28 * mib, 312},   //
		{-25, 28 * mib, 100}, // it is idle
		{10, 28 * mib, 100},  //
	} {
		var got int
		for range max(step.ticks, -step.ticks) {
			got = p.next(cycles, step.live, 4*mib)
		}
		if step.ticks >= 0 {
			cycles++
			got = p.next(cycles, step.live, 4*mib)
		}
		if got != step.percent {
			t.Errorf("step %d: %d, not %d", i, got, step.percent)
		}
	}
	for range 4 {
		cycles++
		p.next(cycles, mib, mib)
	}
	if p.percent != 3200 { // with which the runtime lets a heap of less than 4 MiB grow to 128
		t.Errorf("%d with a heap of 2 MiB", p.percent)
	}
}

// TestRun: GOGC is restored at the end, and that of an operator is left alone.
func TestRun(t *testing.T) { //nolint:paralleltest // GOGC belongs to the process
	for _, own := range []int{normal, 50} {
		before := debug.SetGCPercent(own)
		ctx, cancel := context.WithCancel(t.Context())
		p, over := New(1<<30), make(chan struct{})
		go func() {
			defer close(over)
			p.Run(ctx)
		}()
		if own == normal {
			for frequent := false; !frequent; { // each change is made in between
				debug.FreeOSMemory() // collects
				now := debug.SetGCPercent(normal)
				frequent = now > normal
			}
		}
		cancel()
		<-over
		if got := debug.SetGCPercent(before); got != own {
			t.Errorf("GOGC is %d, not %d", got, own)
		}
	}
}

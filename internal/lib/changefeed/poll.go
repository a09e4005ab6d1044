package changefeed

import (
	"context"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

// afterPanic is the wait after a read that panicked.
const afterPanic = time.Second

// Poll calls read at once, and again after each signal in wake, and when the wait that read returned has passed. It
// returns when ctx and all calls have ended. Meanwhile it runs watch, a subscription to the store's notifications,
// which Poll turns into signals in wake. The capacity of wake must be 1. name is that of the goroutines in reports of
// panics.
func Poll(ctx context.Context, name string, wake chan struct{}, watch func(ctx context.Context, changed func()),
	read func(context.Context) time.Duration) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(recovery.Loop(ctx, name+" feed", func() { watch(ctx, func() { signal.Wake(wake) }) }))
	for ctx.Err() == nil {
		wait := afterPanic
		recovery.Round(name, func() { wait = read(ctx) })
		signal.Wait(ctx, wake, wait)
	}
}

package signal_test

import (
	"context"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestWake: many signals count as one, the next one after it was received is new, and none blocks.
func TestWake(t *testing.T) {
	t.Parallel()
	c := make(chan struct{}, 1)
	for range 2 {
		for range 3 {
			signal.Wake(c)
		}
		<-c
		if len(c) != 0 {
			t.Error("three signals count as several")
		}
	}
}

// TestWait: a signal, the end of the context and the time each end the wait.
func TestWait(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	check.Bubble(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			ctx      context.Context
			send     bool
			received bool
			took     time.Duration
		}{
			"signal":  {t.Context(), true, true, 0},
			"context": {ended, false, false, 0},
			"time":    {t.Context(), false, false, time.Second},
		} {
			c, began := make(chan struct{}, 1), time.Now()
			if test.send {
				signal.Wake(c)
			}
			received, took := signal.Wait(test.ctx, c, time.Second), time.Since(began)
			if received != test.received || took != test.took {
				t.Errorf("%s: received %v after %v", name, received, took)
			}
		}
	})
}

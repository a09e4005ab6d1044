package signal_test

import (
	"testing"

	"github.com/capgate/capgate/internal/lib/signal"
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

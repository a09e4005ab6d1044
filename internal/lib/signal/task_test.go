package signal_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestTask: work that was added before a Wake is found, by one goroutine at a time, which ends when there is none.
func TestTask(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) { // it fails if a goroutine is left
		begun, proceed := make(chan struct{}), make(chan struct{})
		var runs, at int
		task := &signal.Task{}
		task.Run = func() {
			if at++; at != 1 {
				t.Error("two goroutines run at once")
			}
			runs++
			begun <- struct{}{}
			<-proceed
			at--
		}
		for round := range 2 {
			task.Wake()
			<-begun
			for range 3 {
				task.Wake() // once more, for all three
			}
			synctest.Wait() // a second goroutine would run now
			proceed <- struct{}{}
			<-begun
			proceed <- struct{}{}
			synctest.Wait()
			if want := 2 * (round + 1); runs != want {
				t.Errorf("it has run %d times, not %d", runs, want)
			}
		}
	})
}

// TestTaskMissesNothing: no work stays when Wakes and ends of Run coincide.
func TestTaskMissesNothing(t *testing.T) {
	t.Parallel()
	const all = 10_000
	var added, done atomic.Int64
	over := make(chan struct{})
	task := &signal.Task{}
	task.Run = func() {
		if done.Store(added.Load()); done.Load() == all {
			select {
			case <-over:
			default:
				close(over)
			}
		}
	}
	for range all {
		added.Add(1)
		task.Wake()
	}
	check.Received(t, over, "the last work")
}

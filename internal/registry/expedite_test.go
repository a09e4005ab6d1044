package registry

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSchedule: a name without addresses is looked up after 100 ms, 200 ms and so on; while calls wait for a backend,
// it is looked up at least every 500 ms.
func TestSchedule(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := &schedule{sooner: make(chan struct{}, 1)}
		took := func(absent bool) time.Duration {
			began := time.Now()
			if !s.pause(t.Context(), time.Minute, absent) {
				t.Error("the context has ended")
			}
			return time.Since(began)
		}
		near := func(got, want time.Duration) {
			t.Helper()
			if got < want*9/10 || got > want*11/10 {
				t.Errorf("%v, want about %v", got, want)
			}
		}
		for want := 100 * time.Millisecond; want < time.Minute; want *= 2 {
			near(took(true), want)
		}
		near(took(true), time.Minute)
		time.AfterFunc(10*time.Second, func() { signal.Wake(s.sooner) })
		near(took(true), 10*time.Second)
		near(took(true), 500*time.Millisecond)
		near(took(true), 500*time.Millisecond)
		near(took(true), time.Minute) // no call is waiting
		signal.Wake(s.sooner)
		near(took(true), 500*time.Millisecond) // however many calls come
		near(took(false), time.Minute)
		near(took(true), 100*time.Millisecond)
	})
}

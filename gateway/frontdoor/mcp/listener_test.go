package mcp

import (
	"testing"
	"testing/synctest"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestCancelledBeforeItIsServed: a subscription whose cancellation arrives first ends as soon as it is served.
func TestCancelledBeforeItIsServed(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		l := &listener{ctx: t.Context(), watches: true}
		l.leave()
		synctest.Wait()
		finished := 0
		check.Must(t, l.serve(nil, func(err error) {
			finished++
			check.Must(t, err)
		}))
		if finished != 1 {
			t.Errorf("it has ended %d times", finished)
		}
	})
}

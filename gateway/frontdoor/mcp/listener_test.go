package mcp

import "testing"

// TestCancelledBeforeItIsServed: a subscription whose cancellation arrives first ends as soon as it is served.
func TestCancelledBeforeItIsServed(t *testing.T) {
	t.Parallel()
	l := &listener{ctx: t.Context(), watches: true}
	l.leave()
	finished := 0
	l.serve(nil, func(err error) {
		finished++
		if err != nil {
			t.Error(err)
		}
	})
	if finished != 1 {
		t.Errorf("it has ended %d times", finished)
	}
}

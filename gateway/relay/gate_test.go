package relay

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestGate: as many are in as may be, the newest goes first, and who has left does not hold it up.
func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{free: 1}
		if err := g.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		var in []int
		leaves, leave := context.WithCancel(t.Context())
		for i := range 4 {
			ctx := t.Context()
			if i == 3 {
				ctx = leaves
			}
			go func() {
				if g.enter(ctx) == nil {
					in = append(in, i)
				}
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		for range 3 {
			g.leave()
			synctest.Wait()
		}
		if len(in) != 3 || in[0] != 2 || in[1] != 1 || in[2] != 0 {
			t.Errorf("%v", in)
		}
		g.leave()
		if g.free != 1 {
			t.Errorf("%d are free", g.free)
		}
	})
}

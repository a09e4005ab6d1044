package fairshare_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// TestCourtesy: a replica asks for its even part, and for the rest when the others have asked.
func TestCourtesy(t *testing.T) {
	t.Parallel()
	const later = fairshare.SoftStartTime
	var c fairshare.SoftStart
	for _, step := range []struct {
		now               time.Duration
		kept, need, spare int64
		needs, spares     int64
		began, restrained bool
	}{
		{now: 1, kept: 2, need: 5, spare: 3, needs: 5, spares: 3},                                // its even part
		{now: 2, kept: 4, need: 9, spare: 3, needs: 6, spares: 0, began: true, restrained: true}, // more
		// more than that is kept
		{now: 3, kept: 12, need: 1, spare: 1, needs: 0, spares: 0, restrained: true},
		// less for a moment
		{now: 4, kept: 1, need: 1, spare: 1, needs: 1, spares: 1, restrained: true},
		// the others have asked
		{now: 2 + later, kept: 4, need: 9, spare: 3, needs: 9, spares: 3},
		{now: 3 + later, kept: 1, need: 1, spare: 1, needs: 1, spares: 1},                                // it is over
		{now: 4 + later, kept: 4, need: 9, spare: 3, needs: 6, spares: 0, began: true, restrained: true}, // once more
	} {
		needs, spares, began := c.Limit(step.now, 10, step.kept, step.need, step.spare)
		if needs != step.needs || spares != step.spares || began != step.began ||
			c.Active(step.now) != step.restrained {
			t.Errorf("at %d: %d, %d, %v, %v", step.now, needs, spares, began, c.Active(step.now))
		}
	}
}

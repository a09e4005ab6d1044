package relay

import (
	"net/http"
	"testing"
)

// TestHurryMakesSlicesShort: after Hurry, the slices of all shards are short for as long as after a call of a
// latency-sensitive connection.
func TestHurryMakesSlicesShort(t *testing.T) {
	t.Parallel()
	r := New(Config{Shards: 2}, nil, http.NotFoundHandler())
	defer r.Close()
	sliceAt := func(sh *shard, at int64) int64 {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.now = at
		return sh.timeSlice()
	}
	for _, sh := range r.shards {
		if got := sliceAt(sh, sh.clock()); got != timeSlice {
			t.Errorf("%d ns before", got)
		}
	}
	r.Hurry()
	at := r.hurriedAt.Load()
	for _, sh := range r.shards {
		if got := sliceAt(sh, at+sensitiveWindow-1); got != shortSlice {
			t.Errorf("%d ns after", got)
		}
		if got := sliceAt(sh, at+sensitiveWindow); got != timeSlice {
			t.Errorf("%d ns long after", got)
		}
	}
}

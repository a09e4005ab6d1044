package relay

import (
	"testing"
	"time"
)

// TestGroupCharge pays for small messages of two shards. All received bytes are paid for, and each shard pays at most
// one millisecond in advance.
func TestGroupCharge(t *testing.T) {
	t.Parallel()
	r := New(Config{Shards: 2}, &bareHandler{}, nil)
	defer r.Close()
	g := r.NewGroup(nil, nil)
	g.SetRate(1<<20, false)
	now := r.shards[0].clock()
	const messages, size = 1000, 100
	for i := range messages {
		sh := r.shards[i%2]
		sh.mu.Lock()
		sh.now = now
		g.charge(sh, size)
		sh.mu.Unlock()
	}
	paid := time.Duration(g.due.Load()-(now-lead)) * (1 << 20) / time.Second // bytes
	if least, most := messages*size-1, messages*size+2*(1<<20/1000+1); int(paid) < least || int(paid) > most {
		t.Errorf("%d bytes are paid for, not %d to %d", paid, least, most)
	}
}

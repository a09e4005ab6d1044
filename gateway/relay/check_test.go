package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestCheckOfASlowBackend: a backend that still sends keeps its calls, even if its answer to a PING is late: the answer
// may be queued behind a long response. A silent backend loses its calls.
func TestCheckOfASlowBackend(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		_, client, back := greeted(t, Config{})
		isClosed := func() bool {
			synctest.Wait()
			back.sh.enter()
			defer back.sh.leave()
			return back.closed
		}
		feedAll(client, frames(nil).headers(1, true, fuzzRequest("/x")...))
		back.pool.upstream.Check()
		ping := back.sh.relay.cfg.Timeouts.Ping
		for range 10 {
			<-time.After(ping / 2)
			feedAll(back, frames(nil).add(frameWindowUpdate, 0, 0, appendUint32(nil, 1)))
			if isClosed() {
				t.Fatal("the connection ends while its backend sends")
			}
		}
		<-time.After(ping * 2)
		if !isClosed() {
			t.Error("the connection of a silent backend goes on")
		}
	})
}

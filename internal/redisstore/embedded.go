package redisstore

import (
	"context"
	"net"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/redisurl"
)

// embedded is a Redis in this process.
type embedded struct {
	*miniredis.Miniredis

	mu        sync.Mutex
	expiredAt time.Time     // time of the last expiry of keys
	minWait   time.Duration // least time until the next one
}

func newEmbedded() *embedded {
	return &embedded{Miniredis: miniredis.NewMiniRedis(), expiredAt: time.Now()}
}

// connect gives the client of o connections to e, through pipes in memory that no other process can reach.
func (e *embedded) connect(o *redis.UniversalOptions) {
	o.Addrs = []string{redisurl.Embedded.String()}
	o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		// A connection outlives the caller that needed it first: its goroutines do not inherit the caller's labels.
		pprof.SetGoroutineLabels(context.Background())
		defer pprof.SetGoroutineLabels(ctx)
		pipe, err := e.Dial()
		if err != nil {
			return nil, err
		}
		return newBufferedConn(pipe), nil
	}
}

// expireKeys removes the keys whose time has passed. It looks at every key that has a time to live, so it is not done
// for every command, and takes a twentieth of the time at most. A key may expire early by the time between two looks.
func (e *embedded) expireKeys() {
	const least, most, share = 10 * time.Millisecond, 100 * time.Millisecond, 20
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	passed := now.Sub(e.expiredAt)
	if passed < e.minWait {
		return
	}
	e.FastForward(passed)
	e.expiredAt, e.minWait = now, min(max(least, share*time.Since(now)), most)
}

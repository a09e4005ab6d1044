package redisstore

import (
	"context"
	"net"
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
	o.Dialer = func(context.Context, string, string) (net.Conn, error) {
		pipe, err := e.Dial()
		if err != nil {
			return nil, err
		}
		return newBufferedConn(pipe), nil
	}
}

// age lets keys expire, before the next command could see them. It has to look at all that ever
// will, so it does not do it for every command, and while they are few for a twentieth of
// the time at most. A key may expire by what lies between two looks too early.
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

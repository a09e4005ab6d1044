package redisstore

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisurl"
)

// embedded is a Redis inside this process.
type embedded struct {
	*miniredis.Miniredis

	mu   sync.Mutex
	aged time.Time     // when keys were last made to expire
	rest time.Duration // that must lie between
}

func newEmbedded() (*embedded, error) {
	e := &embedded{Miniredis: miniredis.NewMiniRedis(), aged: time.Now()}
	first, err := e.Dial() // starts it
	if err != nil {
		return nil, fmt.Errorf("start embedded redis: %w", err)
	}
	_ = first.Close()
	e.Server().SetPreHook(func(*server.Peer, string, ...string) bool {
		e.age()
		return false
	})
	return e, nil
}

// reach lets o's client reach e, which nobody else can: connections are pipes in memory.
func (e *embedded) reach(o *redis.UniversalOptions) {
	o.Addrs = []string{redisurl.Embedded.String()}
	o.Dialer = func(context.Context, string, string) (net.Conn, error) { return e.Dial() }
}

// age lets keys expire, before a command could see them. It has to look at all that ever
// will, so it does not do it for every command, and while they are few for a twentieth of
// the time at most. A key may expire by what lies between two looks too early.
func (e *embedded) age() {
	const often, seldom, share = 10 * time.Millisecond, 100 * time.Millisecond, 20
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	passed := now.Sub(e.aged)
	if passed < e.rest {
		return
	}
	e.FastForward(passed)
	e.aged, e.rest = now, min(max(often, share*time.Since(now)), seldom)
}

package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore/lua"
)

// client is the Store as used by one feature.
type client struct {
	store   *Store
	purpose Purpose
}

func (s *Store) client(p Purpose) client { return client{s, p} }

// do calls f, which sends commands with the context that it receives, all within Config.Timeout.
func (c client) do(ctx context.Context, f func(ctx context.Context, r redis.Cmdable) error) error {
	ctx, cancel := withPurpose(ctx, c.purpose, c.store.cfg.Timeout)
	defer cancel()
	return f(ctx, c.store.redis)
}

// script is a Lua program that Redis runs atomically.
type script struct{ lua *redis.Script }

// newScript returns the script in lua/NAME.lua. It panics if that is missing.
func newScript(name string) script {
	text, err := lua.Source(name)
	if err != nil {
		panic(err)
	}
	return script{redis.NewScript(text)}
}

// run runs a script by its hash, and loads it on a miss. All keys have one hash tag.
func (c client) run(ctx context.Context, s script, keys []string, args ...any) *redis.Cmd {
	ctx, cancel := withPurpose(ctx, c.purpose, c.store.cfg.Timeout)
	defer cancel()
	return s.lua.Run(ctx, c.store.redis, keys, args...)
}

// publish sends a message to all current subscribers of a channel.
func (c client) publish(ctx context.Context, channel, message string) error {
	return c.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		if c.store.shards == nil {
			return r.Publish(ctx, channel, message).Err()
		}
		return hook{c.store}.process(ctx, 1, func() error {
			node, err := c.store.shards.forChannel(ctx, channel)
			if err != nil {
				return err
			}
			return node.Publish(ctx, channel, message).Err()
		})
	})
}

// malformed counts a malformed value under key.
func (c client) malformed(key string) {
	c.store.counts.malformed.Add(1)
	c.store.cfg.Log.Debug("malformed value in redis", "key", key)
}

// purposeKey is the context key of the bound of commands.
type purposeKey struct{}

// bound holds the purpose of commands, and their timeout, independent of the caller's deadline.
type bound struct {
	purpose Purpose
	ends    time.Time // zero: never
}

// withPurpose bounds commands by a timeout of the store's own.
func withPurpose(ctx context.Context, p Purpose, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithValue(ctx, purposeKey{}, bound{p, time.Now().Add(timeout)}), timeout)
}

func boundOf(ctx context.Context) bound {
	b, _ := ctx.Value(purposeKey{}).(bound)
	return b
}

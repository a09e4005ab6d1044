package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// client is the Store as one feature uses it.
type client struct {
	store   *Store
	purpose Purpose
}

func (s *Store) client(p Purpose) client { return client{s, p} }

// do lets f send commands, all of them within Config.Timeout, with the context that it gets.
func (c client) do(ctx context.Context, f func(ctx context.Context, r redis.Cmdable) error) error {
	ctx, cancel := context.WithTimeout(withPurpose(ctx, c.purpose), c.store.cfg.Timeout)
	defer cancel()
	return f(ctx, c.store.redis)
}

// script is a program in Lua that Redis runs as one command.
type script struct{ lua *redis.Script }

func newScript(lua string) script { return script{redis.NewScript(lua)} }

// run runs a script, which Redis gets to see only if it does not know it yet. All keys
// have one tag.
func (c client) run(ctx context.Context, s script, keys []string, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(withPurpose(ctx, c.purpose), c.store.cfg.Timeout)
	defer cancel()
	return s.lua.Run(ctx, c.store.redis, keys, args...)
}

// publish sends a message to all who subscribe to the channel now.
func (c client) publish(ctx context.Context, channel, message string) error {
	return c.do(ctx, func(ctx context.Context, r redis.Cmdable) error { return r.Publish(ctx, channel, message).Err() })
}

// malformed counts a value that was found under key and could not be understood.
func (c client) malformed(key string) {
	c.store.counts.malformed.Add(1)
	c.store.cfg.Log.Debug("malformed value in redis", "key", key)
}

// purposeKey is where a context carries what its commands are for.
type purposeKey struct{}

func withPurpose(ctx context.Context, p Purpose) context.Context {
	return context.WithValue(ctx, purposeKey{}, p)
}

package redisstore

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/signal"
)

// quiet is the silence of a subscription after which it is pinged.
const quiet = 5 * time.Second

// subscribe passes the messages of a channel to onMessage, until ctx ends. After each subscription it calls onConnect:
// messages may have been lost, so that their subject must be read. Neither may block for long: both run on the
// reader's goroutine.
func (c client) subscribe(ctx context.Context, channel string, onMessage func(message string), onConnect func()) {
	wait := backoff.Backoff{First: firstWait, Max: lastWait}
	for ctx.Err() == nil {
		began := time.Now()
		c.listen(ctx, channel, onMessage, onConnect)
		if time.Since(began) > steady {
			wait.Reset()
		}
		back := c.store.breaker.next()
		signal.Wait(ctx, back, c.store.breaker.jitter(wait.Next()))
	}
}

// subscription subscribes, on a Cluster at a master that answers.
func (c client) subscription(ctx context.Context, channel string) *redis.PubSub {
	if c.store.shards != nil {
		if node, err := c.store.shards.forChannel(ctx, channel); err == nil {
			return node.Subscribe(ctx, channel)
		}
	}
	return c.store.redis.Subscribe(ctx, channel)
}

// listen subscribes once, and returns when the subscription ends.
func (c client) listen(ctx context.Context, channel string, onMessage func(string), onConnect func()) {
	if c.store.Unavailable() {
		return
	}
	ctx = context.WithValue(ctx, purposeKey{}, bound{purpose: Listen})
	c.store.counts.commands[Listen].Add(1) // the hook does not see subscriptions
	if before := c.store.cfg.Before; before != nil {
		before(ctx, "subscribe "+channel)
	}
	subscription := c.subscription(ctx, channel)
	defer subscription.Close() //nolint:errcheck // nothing is left to do
	stop := context.AfterFunc(ctx, func() { _ = subscription.Close() })
	defer stop()
	asked := false
	for {
		patience := quiet
		if asked {
			patience = c.store.cfg.Timeout
		}
		got, err := subscription.ReceiveTimeout(ctx, patience)
		var timeout net.Error
		switch {
		case err == nil:
			asked = false
		case !asked && ctx.Err() == nil && errors.As(err, &timeout) && timeout.Timeout():
			if subscription.Ping(ctx) != nil {
				return
			}
			asked = true
			continue
		default:
			return
		}
		switch got := got.(type) {
		case *redis.Subscription:
			onConnect()
		case *redis.Message:
			onMessage(got.Payload)
		}
	}
}

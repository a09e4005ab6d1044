package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// hook sees every command: it counts, and fails commands while the breaker is open.
type hook struct{ store *Store }

// DialHook implements redis.Hook.
func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.before(ctx, cmd)
		err := h.process(ctx, 1, func() error { return next(ctx, cmd) })
		if err == ErrUnavailable {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.before(ctx, cmds...)
		err := h.process(ctx, len(cmds), func() error { return next(ctx, cmds) })
		if err == ErrUnavailable {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// before calls Config.Before.
func (h hook) before(ctx context.Context, cmds ...redis.Cmder) {
	if h.store.cfg.Before == nil {
		return
	}
	var all []any
	for _, cmd := range cmds {
		all = append(all, cmd.Args()...)
	}
	h.store.cfg.Before(ctx, fmt.Sprint(all...))
}

// process sends n commands unless the breaker of the Store is open, and evaluates their result.
func (h hook) process(ctx context.Context, n int, send func() error) error {
	purpose := boundOf(ctx).purpose
	b := h.store.breaker
	if purpose != Watch && b.open() {
		h.store.counts.errors.Add(int64(n))
		return ErrUnavailable
	}
	if h.store.server != nil {
		h.store.server.expireKeys()
	}
	h.store.counts.commands[purpose].Add(int64(n))
	var err error
	if h.store.shards != nil {
		err = send() // shardHook evaluates the result
	} else {
		err = h.store.send(ctx, b, send)
	}
	if failed(err) {
		h.store.counts.errors.Add(1)
	}
	return err
}

// send calls f, which sends commands, and records the result in the breaker of their server.
func (s *Store) send(ctx context.Context, b *breaker, f func() error) error {
	epoch, stalled := b.epoch(), s.cfg.Stalled()
	err := f()
	switch {
	case !failed(err):
		b.answered()
	case boundOf(ctx).purpose == Watch || !unreachable(ctx, err):
	case s.delayed(err, stalled):
		b.doubt(epoch, err)
	default:
		b.trip(epoch, err)
	}
	return err
}

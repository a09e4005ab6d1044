package redisstore

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// fetch returns the result of a command that needs only a key, such as redis.Cmdable.HGetAll.
func fetch[T any, C interface{ Result() (T, error) }](ctx context.Context, c client,
	command func(redis.Cmdable, context.Context, string) C, key string) (v T, err error) {
	err = c.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		v, err = command(r, ctx, key).Result()
		return err
	})
	return v, err
}

// values returns the values of fields of a hash, each of which may be absent.
func (c client) values(ctx context.Context, key string, fields ...string) *reply {
	var found []any
	err := c.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		found, err = r.HMGet(ctx, key, fields...).Result()
		return err
	})
	return &reply{found, &err}
}

// page reads a page of a sorted set whose members have the same score, and the cursor of the next page: "" begins, and
// ends.
func (c client) page(ctx context.Context, key, after string, most int) (page []string, next string, err error) {
	from := "-"
	if after != "" {
		from = "(" + after
	}
	err = c.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		page, err = r.ZRangeArgs(ctx, redis.ZRangeArgs{Key: key, ByLex: true, Start: from, Stop: "+",
			Count: int64(most) + 1}).Result()
		return err
	})
	if len(page) > most {
		page = page[:most]
		next = page[most-1]
	}
	return page, next, err
}

// position reads the position of a journal, which lua/include/journal.lua writes.
func (c client) position(ctx context.Context, state string) (at changefeed.Position, err error) {
	r := c.values(ctx, state, "epoch", "version")
	at.Epoch = r.text()
	version := r.text()
	if at.Version, err = strconv.ParseUint(version, 10, 64); err != nil && at.Epoch != "" {
		c.malformed(state)
	}
	return at, r.end()
}

// changedAfter returns what has changed after a version.
func (c client) changedAfter(ctx context.Context, changes string, version uint64) (members []string, err error) {
	err = c.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		members, err = r.ZRangeArgs(ctx, redis.ZRangeArgs{Key: changes, ByScore: true,
			Start: "(" + strconv.FormatUint(version, 10), Stop: "+inf"}).Result()
		return err
	})
	return members, err
}

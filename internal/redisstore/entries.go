package redisstore

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// entriesBetween returns entries of a stream that were added between two times and before a mark, the newest first, and
// the mark of the next page; "" if there is none.
func (c client) entriesBetween(ctx context.Context, key string, from, to time.Time, before string, most int) (
	entries []redis.XMessage, next string, err error) {
	last := strconv.FormatInt(to.UnixMilli(), 10)
	if before != "" {
		last = "(" + before
	}
	err = c.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		entries, err = r.XRevRangeN(ctx, key, last, strconv.FormatInt(from.UnixMilli(), 10), int64(most)).Result()
		return err
	})
	if len(entries) == most && err == nil {
		next = entries[most-1].ID
	}
	return entries, next, err
}

// newestOf returns the newest entries of a stream. Each has one field, which is JSON of at most so many bytes.
func newestOf[T any, P interface {
	*T
	Bound() bool
}](ctx context.Context, c client, key, field string, most int64, size int) (all []T, err error) {
	var entries []redis.XMessage
	err = c.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		entries, err = r.XRevRangeN(ctx, key, "+", "-", most).Result()
		return err
	})
	for i := range entries {
		text, _ := entries[i].Values[field].(string)
		var one T
		if len(text) > size || json.Unmarshal([]byte(text), &one) != nil || !P(&one).Bound() {
			c.malformed(key)
			continue
		}
		all = append(all, one)
	}
	return all, err
}

package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/recent"
)

const (
	// maxPastTenants bounds the tenants whose archived calls are found without naming the tenant.
	maxPastTenants = 10_000
	// maxPastCall bounds an archived call, in bytes.
	maxPastCall = 16 << 10
)

var _ recent.Archive = (*Recent)(nil)

// pastKey returns the key of the archived calls of a tenant; "": of callers that were not authenticated.
func (r *Recent) pastKey(tenant string) string {
	if tenant == "" {
		return r.key("{past}:anonymous")
	}
	return r.key("{TENANT:past}:calls", tenant)
}

// Keep implements recent.Archive.
func (r *Recent) Keep(ctx context.Context, calls []recent.Call, b recent.Bounds) error {
	now := time.Now()
	oldest := now.Add(-b.Age()).UnixMilli()
	var tenants []string
	err := r.do(ctx, func(ctx context.Context, c redis.Cmdable) error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range calls {
				text, err := json.Marshal(&calls[i])
				if err != nil {
					return fmt.Errorf("encode a call: %w", err)
				}
				if !slices.Contains(tenants, calls[i].Tenant) {
					tenants = append(tenants, calls[i].Tenant)
				}
				p.XAdd(ctx, &redis.XAddArgs{Stream: r.pastKey(calls[i].Tenant), MaxLen: int64(b.Calls), Approx: true,
					Values: []any{"call", text}})
			}
			for _, tenant := range tenants {
				key := r.pastKey(tenant)
				p.XTrimMinID(ctx, key, strconv.FormatInt(oldest, 10))
				p.PExpire(ctx, key, b.Age())
				p.ZAdd(ctx, r.key("{past}:tenants"), redis.Z{Score: float64(now.UnixMilli()), Member: tenant})
			}
			p.ZRemRangeByScore(ctx, r.key("{past}:tenants"), "-inf", strconv.FormatInt(oldest, 10))
			p.ZRemRangeByRank(ctx, r.key("{past}:tenants"), 0, -maxPastTenants-1)
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("archive calls: %w", err)
	}
	return nil
}

// Page implements recent.Archive.
func (r *Recent) Page(ctx context.Context, tenant string, from, to time.Time, before string, most int) (
	calls []recent.Call, next string, err error) {
	entries, next, err := r.entriesBetween(ctx, r.pastKey(tenant), from, to, before, most)
	if err != nil {
		return nil, "", fmt.Errorf("read archived calls: %w", err)
	}
	for i := range entries {
		text, _ := entries[i].Values["call"].(string)
		var c recent.Call
		if len(text) > maxPastCall || json.Unmarshal([]byte(text), &c) != nil || !c.Bound() {
			r.malformed(r.pastKey(tenant))
			continue
		}
		calls = append(calls, c)
	}
	return calls, next, nil
}

// Tenants implements recent.Archive.
func (r *Recent) Tenants(ctx context.Context, since time.Time, most int) (tenants []string, err error) {
	err = r.do(ctx, func(ctx context.Context, c redis.Cmdable) (err error) {
		tenants, err = c.ZRevRangeByScore(ctx, r.key("{past}:tenants"), &redis.ZRangeBy{Max: "+inf",
			Min: strconv.FormatInt(since.UnixMilli(), 10), Count: int64(most)}).Result()
		return err
	})
	return tenants, err
}

// forgetPast removes a deleted tenant from the tenants with archived calls. The calls are deleted with its other keys.
func (r *Recent) forgetPast(ctx context.Context, tenant string) error {
	return r.do(ctx, func(ctx context.Context, c redis.Cmdable) error {
		return c.ZRem(ctx, r.key("{past}:tenants"), tenant).Err()
	})
}

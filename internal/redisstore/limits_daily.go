package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/ratelimit/daily"
)

var (
	raiseUsesScript = newScript("limits_raise")
	nearLimitScript = newScript("limits_near")
)

// dailyTTL is the lifetime of a day's record: that day, and the days for which it is shown.
const dailyTTL = (daily.Days + 1) * 24 * time.Hour

// DailyUses is a daily.Store.
type DailyUses struct{ client }

var _ daily.Store = (*DailyUses)(nil)

// DailyUses returns the store of the use of limits by day.
func (s *Store) DailyUses() *DailyUses { return &DailyUses{s.client(Limits)} }

func (d *DailyUses) nearKey(of ratelimit.Owner) string {
	return d.key("{TENANT:limits}:[UID:]near", of.ID, of.UID)
}

func (d *DailyUses) dayKey(of ratelimit.Owner, day int64) string {
	return d.key("{TENANT:limits}:[UID:]used:DAY", of.ID, of.UID, strconv.FormatInt(day, 10))
}

func (d *DailyUses) tenantsKey() string { return d.key("{limits}:near") }

// Raise implements daily.Store.
func (d *DailyUses) Raise(ctx context.Context, of ratelimit.Owner, uses []daily.Use) (first []int, err error) {
	keys, at := []string{d.nearKey(of)}, map[int64]int{}
	args := []any{dailyTTL.Milliseconds(), daily.MaxLimits, daily.NearTenth}
	var ends time.Time
	for i := range uses {
		u := &uses[i]
		if end := u.Ends(); u.Near() && end.After(ends) {
			ends = end
		}
		if at[u.Day] == 0 {
			keys = append(keys, d.dayKey(of, u.Day))
			at[u.Day] = len(keys)
		}
		args = append(args, at[u.Day], limitField(u), u.Used, u.Most, u.Period)
	}
	if !ends.IsZero() { // before the record, which is near for the first time but once
		err = d.run(ctx, nearLimitScript, []string{d.tenantsKey()}, daily.MaxNear, of.ID, ends.UnixMilli()).Err()
		if err != nil {
			return nil, fmt.Errorf("record a tenant near a limit: %w", err)
		}
	}
	r := d.read(ctx, raiseUsesScript, keys, args...)
	for r.more() {
		i := int(r.int())
		if i < 0 || i >= len(uses) {
			return nil, errReply
		}
		first = append(first, i)
	}
	if err = r.end(); err != nil {
		return nil, fmt.Errorf("record the use of tenant limits: %w", err)
	}
	return first, nil
}

// Uses implements daily.Store.
func (d *DailyUses) Uses(ctx context.Context, of ratelimit.Owner, from, to int64) (all []daily.Use, err error) {
	var records []*redis.MapStringStringCmd
	err = d.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for day := from; day <= to; day++ {
				records = append(records, p.HGetAll(ctx, d.dayKey(of, day)))
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the use of tenant limits: %w", err)
	}
	for i, record := range records {
		day := from + int64(i)
		for field, text := range record.Val() {
			if u, ok := useOf(field, text); ok {
				u.Day = day
				all = append(all, u)
			} else {
				d.malformed(d.dayKey(of, day))
			}
		}
	}
	return all, nil
}

// NearUses implements daily.Store.
func (d *DailyUses) NearUses(ctx context.Context, of ratelimit.Owner) (all []daily.Use, err error) {
	record, err := fetch(ctx, d.client, redis.Cmdable.HGetAll, d.nearKey(of))
	for field, text := range record {
		period, rest, _ := strings.Cut(text, " ")
		most, used, _ := strings.Cut(rest, " ")
		used, _, _ = strings.Cut(used, " ")
		u, ok := useOf(field, used+" "+most)
		if n, err := strconv.ParseInt(period, 10, 64); ok && err == nil {
			u.Period = n
			all = append(all, u)
		} else {
			d.malformed(d.nearKey(of))
		}
	}
	return all, err
}

// NearTenants implements daily.Store.
func (d *DailyUses) NearTenants(ctx context.Context, named []string, skip, most int) (ids []string, all int,
	err error) {
	now := time.Now().UnixMilli()
	if named == nil {
		var count *redis.IntCmd
		var page *redis.StringSliceCmd
		from := &redis.ZRangeBy{Min: strconv.FormatInt(now, 10), Max: "+inf", Offset: int64(skip),
			Count: int64(most)}
		err = d.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
			_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
				page = p.ZRangeByScore(ctx, d.tenantsKey(), from)
				count = p.ZCount(ctx, d.tenantsKey(), from.Min, from.Max)
				return nil
			})
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		return page.Val(), int(count.Val()), nil
	}
	ends := make([]*redis.FloatCmd, len(named))
	_ = d.do(ctx, func(ctx context.Context, r redis.Cmdable) error { // each command has its own error
		_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range named {
				ends[i] = p.ZScore(ctx, d.tenantsKey(), id)
			}
			return nil
		})
		return err
	})
	for i, end := range ends {
		if err := end.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, 0, err
		}
		if int64(end.Val()) > now {
			if all++; all > skip && len(ids) < most {
				ids = append(ids, named[i])
			}
		}
	}
	return ids, all, nil
}

// ForgetNear implements daily.Store.
func (d *DailyUses) ForgetNear(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return d.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.ZRem(ctx, d.tenantsKey(), ids).Err()
	})
}

// limitField is the field of a limit in a record.
func limitField(u *daily.Use) string {
	return joinWords([]string{u.Limit.String(), u.Per, u.Capability, u.Tool})
}

// useOf reads a field and its text: the use, and its maximum.
func useOf(field, text string) (u daily.Use, ok bool) {
	words, ok := splitWords(field, 4)
	if !ok {
		return u, false
	}
	parts := strings.Split(text, " ")
	if u.Limit, ok = call.ParseLimit(words[0]); !ok || len(parts) != 2 {
		return u, false
	}
	u.Per, u.Capability, u.Tool = words[1], words[2], words[3]
	var errUsed, errMost error
	u.Used, errUsed = strconv.ParseInt(parts[0], 10, 64)
	u.Most, errMost = strconv.ParseInt(parts[1], 10, 64)
	return u, errUsed == nil && errMost == nil
}

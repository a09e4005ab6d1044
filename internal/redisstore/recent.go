package redisstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/recent"
)

const (
	recentCallsTTL = 24 * time.Hour
	minutesTTL     = (recent.Window + 5) * time.Minute
	// minuteKinds is the number of counts in a minute, each a field of every tenant.
	minuteKinds     = 5
	maxMinuteFields = minuteKinds * 1024
	// maxSaying bounds what a replica says of itself, and maxAnnouncement the calls of one message, in bytes.
	maxSaying       = 16 << 10
	maxAnnouncement = 4 << 20
)

var (
	publishRecentScript = newScript("recent_publish")
	minutesScript       = newScript("recent_minutes")
	replicasScript      = newScript("recent_replicas")
)

// Recent has the last calls, changes and counts of all replicas. It is a recent.Store.
type Recent struct{ client }

// Recent returns the store of what happened lately.
func (s *Store) Recent() *Recent { return &Recent{s.client(RecentCalls)} }

// Publish implements recent.Store.
func (r *Recent) Publish(ctx context.Context, b *recent.Batch, keep int) error {
	keys := r.keys(nil, "{recent}:order", "{recent}:flows", "{recent}:calls", "{recent}:changes", "{recent}:replicas")
	args := []any{keep, recentCallsTTL.Milliseconds(), r.channel("calls"), "", recent.MaxChanges, len(b.Calls)}
	texts := make([][]byte, len(b.Calls))
	for i := range b.Calls {
		c := &b.Calls[i]
		text, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("encode a call: %w", err)
		}
		flow := joinWords([]string{c.Flow()})
		args = append(args, flow, fmt.Sprintf("%s:%016x:%s", flow, c.Ended.UnixMicro(), c.ID), c.ID, text)
		texts[i] = text
	}
	if len(texts) > 0 { // an array of them, for watchers
		args[3] = slices.Concat([]byte("["), bytes.Join(texts, []byte(",")), []byte("]"))
	}
	args = append(args, len(b.Changes))
	for i := range b.Changes {
		args = append(args, b.Changes[i].JSON())
	}
	id, said := "", []byte(nil)
	if b.Replica != nil {
		var err error
		if said, err = json.Marshal(b.Replica); err != nil || len(said) > maxSaying {
			return errors.Join(errors.New("encode the state of a replica"), err)
		}
		id = b.Replica.ID
	}
	args = append(args, id, said, minutesTTL.Milliseconds(), maxMinuteFields)
	for minute, counts := range b.Minutes {
		keys = append(keys, r.minuteKey(minute))
		for tenant, c := range counts {
			for _, one := range []struct {
				kind string
				n    int64
			}{{"c", c.Calls}, {"r", c.Refusals}, {"e", c.Errors}, {"a", c.Asked}, {"t", c.ToolErrors}} {
				if one.n > 0 {
					args = append(args, len(keys), one.kind, tenant, one.n)
				}
			}
		}
	}
	return r.run(ctx, publishRecentScript, keys, args...).Err()
}

func (r *Recent) minuteKey(minute int64) string {
	return r.key("{recent}:minute:N", strconv.FormatInt(minute, 10))
}

// Calls implements recent.Store.
func (r *Recent) Calls(ctx context.Context) (calls []recent.Call, err error) {
	texts, err := fetch(ctx, r.client, redis.Cmdable.HVals, r.key("{recent}:calls"))
	for _, text := range texts {
		var c recent.Call
		if json.Unmarshal([]byte(text), &c) != nil || !c.Bound() {
			r.malformed(r.key("{recent}:calls"))
			continue
		}
		calls = append(calls, c)
	}
	return calls, err
}

// Minutes implements recent.Store.
func (r *Recent) Minutes(ctx context.Context, minutes []int64, tenants []string) ([]recent.Counts, error) {
	keys := make([]string, len(minutes))
	for i, m := range minutes {
		keys[i] = r.minuteKey(m)
	}
	which := []any{"some"}
	if tenants == nil {
		which[0] = "all"
	}
	for _, one := range tenants {
		which = append(which, one)
	}
	got := r.read(ctx, minutesScript, keys, which...)
	counts := make([]recent.Counts, len(minutes))
	for i := range counts {
		counts[i] = recent.Counts{Calls: got.int(), Refusals: got.int(), Errors: got.int(), Asked: got.int(),
			ToolErrors: got.int()}
	}
	if err := got.end(); err != nil {
		return nil, fmt.Errorf("read the minutes: %w", err)
	}
	return counts, nil
}

// Replicas implements recent.Store.
func (r *Recent) Replicas(ctx context.Context, within time.Duration) (all []recent.Replica, err error) {
	got := r.read(ctx, replicasScript, r.keys(nil, "{recent}:replicas"), within.Milliseconds())
	for _, text := range got.texts() {
		var one recent.Replica
		if len(text) > maxSaying || json.Unmarshal([]byte(text), &one) != nil || !one.Bound() {
			r.malformed(r.key("{recent}:replicas"))
			continue
		}
		all = append(all, one)
	}
	return all, got.end()
}

// Leave implements recent.Store.
func (r *Recent) Leave(ctx context.Context, replica string) error {
	return r.do(ctx, func(ctx context.Context, c redis.Cmdable) error {
		return c.HDel(ctx, r.key("{recent}:replicas"), replica).Err()
	})
}

// Changes implements recent.Store.
func (r *Recent) Changes(ctx context.Context) ([]recent.Change, error) {
	return newestOf[recent.Change](ctx, r.client, r.key("{recent}:changes"), "change", recent.MaxChanges,
		recent.MaxChangeBytes)
}

// Watch implements recent.Store.
func (r *Recent) Watch(ctx context.Context, told func([]recent.Call), connected func()) {
	r.subscribe(ctx, r.channel("calls"), func(text string) {
		var calls []recent.Call
		if len(text) > maxAnnouncement || json.Unmarshal([]byte(text), &calls) != nil {
			r.malformed(r.channel("calls"))
			return
		}
		good := calls[:0]
		for i := range calls {
			if calls[i].Bound() {
				good = append(good, calls[i])
			}
		}
		told(good)
	}, connected)
}

var _ recent.Store = (*Recent)(nil)

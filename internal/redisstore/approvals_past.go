package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/policy/approvals"
)

// Past implements approvals.PastStore.
func (a *ApprovalStore) Past(ctx context.Context, tenant string, from, to time.Time, before string, most int) (
	past []approvals.Past, next string, err error) {
	key := a.key("{TENANT:approvals}:past", tenant)
	entries, next, err := a.entriesBetween(ctx, key, from, to, before, most)
	if err != nil {
		return nil, "", fmt.Errorf("read the approvals that have ended: %w", err)
	}
	for i := range entries {
		p, ok := pastOf(&entries[i])
		if p.Tenant = tenant; ok {
			past = append(past, p)
		} else {
			a.malformed(key)
		}
	}
	return past, next, nil
}

// pastOf parses an entry, whose names lua/include/past.lua cuts.
func pastOf(e *redis.XMessage) (p approvals.Past, ok bool) {
	text := func(name string, most int) string {
		value, _ := e.Values[name].(string)
		return untrusted.UTF8(untrusted.Cut(value, most))
	}
	const name = 256
	p = approvals.Past{ID: text("id", name), User: text("user", name), Agent: text("agent", name),
		Capability: text("capability", name), Tool: text("tool", name), RequestID: text("request", name),
		By: text("by", name), Comment: text("comment", 2*name)}
	kept, _, _ := strings.Cut(e.ID, "-")
	p.Outcome, ok = approvals.ParseOutcome(text("outcome", name))
	p.Remember, _ = approvals.ParseRemember(text("remember", name))
	return p, ok && p.ID != "" && parseMillis(&p.Kept, kept) && parseMillis(&p.Ended, text("ended", name)) &&
		parseMillis(&p.Created, text("created", name))
}

// Days implements approvals.PastStore.
func (a *ApprovalStore) Days(ctx context.Context, tenant string, days []int64) (
	[]map[approvals.Series]approvals.Tally, error) {
	got := make([]*redis.MapStringStringCmd, len(days))
	key := func(day int64) string { return a.key("{TENANT:approvals}:day:N", tenant, strconv.FormatInt(day, 10)) }
	err := a.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, day := range days {
				got[i] = p.HGetAll(ctx, key(day))
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the numbers of approvals: %w", err)
	}
	all := make([]map[approvals.Series]approvals.Tally, len(days))
	for i, day := range days {
		all[i] = map[approvals.Series]approvals.Tally{}
		for field, text := range got[i].Val() {
			of, known := approvals.ParseSeries(untrusted.UTF8(field))
			t, ok := approvals.ParseTally(text)
			if !known || !ok {
				a.malformed(key(day))
				continue
			}
			sum := all[i][of]
			sum.Add(&t)
			all[i][of] = sum
		}
	}
	return all, nil
}

// PastTenants implements approvals.PastStore.
func (a *ApprovalStore) PastTenants(ctx context.Context, tenants []string) ([]string, error) {
	return a.having(ctx, tenants, func(of string) string { return a.key("{TENANT:approvals}:past", of) })
}

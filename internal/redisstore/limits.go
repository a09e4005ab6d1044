package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
)

var limitsScript = newScript("limits_exchange")

// TenantLimits are the permits and budgets used by replicas. It is a ratelimit.Store.
type TenantLimits struct {
	client
	replica string
	ttl     time.Duration // lifetime of a replica's permits after its last report
	room    int           // number of values of one limit with budgets of their own
	ahead   time.Duration // for tests: offset of the clock
}

// Limits returns the store for one replica, with its unique name.
func (s *Store) Limits(replica string) *TenantLimits {
	return &TenantLimits{client: s.client(Limits), replica: replica, ttl: 5 * time.Second, room: 10_000}
}

const (
	limitKeys = 5
	// seenFor is the time for which a message that arrives again is known.
	seenFor = time.Minute
)

// Exchange implements ratelimit.Store. All demands are sent as one command.
func (l *TenantLimits) Exchange(
	ctx context.Context, of ratelimit.Owner, asks []ratelimit.Demand,
) ([]ratelimit.Grant, error) {
	keys := append(make([]string, 0, 1+limitKeys*len(asks)),
		l.key("{TENANT:limits}:[UID:]seen:REPLICA", of.ID, of.UID, l.replica))
	args := append(make([]any, 0, 7+20*len(asks)), l.replica, l.ttl.Milliseconds(), l.room, l.ahead.Milliseconds(),
		seqOf(asks), seenFor.Milliseconds(), ratelimit.DebtTime.Milliseconds())
	for i := range asks {
		keys, args = append(keys, l.keysOf(of, &asks[i].Name)...), append(args, limitArgs(&asks[i])...)
	}
	r := l.read(ctx, limitsScript, keys, args...)
	if *r.err == nil && !r.more() {
		return nil, errOvertaken
	}
	answers := make([]ratelimit.Grant, len(asks))
	for i := range answers {
		answers[i] = ratelimit.Grant{
			Calls: r.int(), Short: call.Limit(r.int()), Wait: r.millis(),
			Day:     ratelimit.BudgetUse{Period: r.int(), Calls: r.int()},
			Month:   ratelimit.BudgetUse{Period: r.int(), Calls: r.int()},
			Permits: r.int(), Sharing: r.int(), Others: r.int(),
			Bucket: ratelimit.Bucket{Tokens: r.int(), Spills: r.int()},
		}
	}
	dayEnds, monthEnds := r.millis(), r.millis()
	for i := range answers {
		answers[i].DayEnds, answers[i].MonthEnds = dayEnds, monthEnds
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("exchange permits of tenant limits: %w", err)
	}
	return answers, nil
}

// Spent implements ratelimit.Budgets. The keys of former periods have expired.
func (l *TenantLimits) Spent(ctx context.Context, of ratelimit.Owner, names []ratelimit.Name) ([]ratelimit.Spent,
	error) {
	counts := make([]*redis.StringCmd, 0, 2*len(names))
	_ = l.do(ctx, func(ctx context.Context, r redis.Cmdable) error { // each command has its own error
		_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range names {
				keys, field := l.keysOf(of, &names[i]), valueField(&names[i])
				counts = append(counts, p.HGet(ctx, keys[1], field), p.HGet(ctx, keys[2], field))
			}
			return nil
		})
		return err
	})
	spent := make([]ratelimit.Spent, len(names))
	for i, c := range counts {
		n, err := c.Int64()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return nil, fmt.Errorf("read the budgets of tenant limits: %w", err)
		case i%2 == 0:
			spent[i/2].Day = n
		default:
			spent[i/2].Month = n
		}
	}
	return spent, nil
}

// seqOf is the sequence number of a message.
func seqOf(asks []ratelimit.Demand) (seq int64) {
	for i := range asks {
		seq = max(seq, asks[i].Seq)
	}
	return seq
}

// keysOf returns the keys of one limit.
func (l *TenantLimits) keysOf(of ratelimit.Owner, n *ratelimit.Name) []string {
	return l.keys([]string{of.ID, of.UID, n.Per, n.Capability, n.Tool, valueField(n)},
		"{TENANT:limits}:[UID:]rate:PER:CAP:TOOL:VALUE", "{TENANT:limits}:[UID:]day:PER:CAP:TOOL",
		"{TENANT:limits}:[UID:]month:PER:CAP:TOOL", "{TENANT:limits}:[UID:]places:PER:CAP:TOOL:VALUE",
		"{TENANT:limits}:[UID:]spills:PER:CAP:TOOL:VALUE")
}

// valueField is the field of a value. It differs from the field of all other values together, and from that of the
// period.
func valueField(n *ratelimit.Name) string {
	if n.Others {
		return "*"
	}
	return "=" + n.Value
}

func limitArgs(a *ratelimit.Demand) []any {
	b := &a.Bounds
	return []any{
		valueField(&a.Name), a.Want, a.Returned, a.Unleased, b.CallsPerSecond, b.Burst,
		b.PerDay, a.Day.Period, a.Day.Calls, b.PerMonth, a.Month.Period, a.Month.Calls,
		b.Concurrent, a.Used, a.Retain, a.Need, a.Spare, a.Bucket.Tokens, a.Bucket.Spills, a.Age.Milliseconds(),
	}
}

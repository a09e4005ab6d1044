package ratelimit

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// unknownFraction is the divisor of a replica's share of a budget whose use is unknown, and at first of permits whose
// holders are unknown.
const unknownFraction = 10

// localShare is the share of a scope that a replica grants itself while the store does not respond.
type localShare struct {
	bucket     Bucket        // of the store at the last contact
	heard      time.Duration // time of bucket
	tokens     float64
	at         time.Duration // time of tokens; 0: not since the last contact
	day, month budgetLeft
	others     int64         // permits of other replicas
	asOf       time.Duration // time of others; 0: never
	silent     time.Duration // start of the store's silence; 0: it responds
}

// budgetLeft is the rest of a budget.
type budgetLeft struct {
	left int64
	ends time.Duration // 0: not known from the store
}

// observe records the store's grant for the time when it does not respond.
func (s *scope) observe(got *Grant, now time.Duration, replicas int64) {
	b := s.bounds.Load()
	s.day, s.month, s.ends = got.Day, got.Month, 0
	s.local.bucket, s.local.heard, s.local.at = got.Bucket, now, 0
	s.local.others, s.local.asOf = got.Others, now
	s.local.silent = 0
	if b.PerMonth > 0 {
		s.local.month = budgetLeft{max(int64(b.PerMonth)-got.Month.Calls, 0) / replicas, now + got.MonthEnds}
		s.ends = now + got.MonthEnds
	}
	if b.PerDay > 0 {
		s.local.day = budgetLeft{max(int64(b.PerDay)-got.Day.Calls, 0) / replicas, now + got.DayEnds}
		s.ends = now + got.DayEnds
	}
}

// localGrant grants a demand in place of the store.
func (s *scope) localGrant(demand *Demand, now time.Duration, replicas int64) Grant {
	b, o := &demand.Bounds, &s.local
	got := Grant{Calls: demand.Want}
	if b.CallsPerSecond > 0 {
		rate := float64(b.CallsPerSecond) / float64(replicas)
		s.refillLocally(demand, now, float64(replicas))
		if can := int64(max(o.tokens, 0)); can < got.Calls {
			got.Calls, got.Short = can, call.CallsPerSecond
			got.Wait = time.Duration((1 - (o.tokens - float64(can))) / rate * float64(time.Second))
		}
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	month := time.Date(today.Year(), today.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	for _, budget := range [...]struct {
		limit call.Limit
		most  int
		*budgetLeft
		next time.Time // end of the current period
	}{{call.PerDay, b.PerDay, &o.day, today.Add(24 * time.Hour)}, {call.PerMonth, b.PerMonth, &o.month, month}} {
		if budget.most == 0 {
			continue
		}
		if budget.ends <= now {
			whole := int64(budget.most) / replicas
			if budget.ends == 0 {
				whole /= unknownFraction
			}
			budget.left, budget.ends = max(whole, 1), now+time.Until(budget.next)
		}
		if budget.left < got.Calls {
			got.Calls, got.Short, got.Wait = budget.left, budget.limit, budget.ends-now
		}
	}
	o.tokens -= float64(got.Calls)
	o.day.left -= got.Calls
	o.month.left -= got.Calls
	s.unreported += got.Calls
	if b.Concurrent > 0 {
		got.local, got.fair = true, o.permits(int64(b.Concurrent), now, replicas)
		got.Permits = max(min(demand.Retain+demand.Need+demand.Spare, got.fair), demand.Used)
	}
	return got
}

// refillLocally updates the replica's share of a token bucket. The share begins as a part of what the bucket has if no
// other replica used it since the last contact, but with no more than a lease: so the share and the leases in memory
// together are at most one lease. Calls that the store does not know are taken from it.
func (s *scope) refillLocally(demand *Demand, now time.Duration, replicas float64) {
	b, o := &demand.Bounds, &s.local
	rate, burst := float64(b.CallsPerSecond), float64(b.Burst)
	if o.at > 0 {
		o.tokens, o.at = min(o.tokens+rate/replicas*(now-o.at).Seconds(), max(burst/replicas, 1)), now
		return
	}
	known := min(float64(o.bucket.Tokens)+rate*(now-o.heard).Seconds(), burst)
	if o.bucket.Spills == 0 {
		known = max(burst/unknownFraction, 1)
	}
	lease := max(b.CallsPerSecond/leaseOfRate, 1)
	o.tokens = min(max(known/replicas, min(known, 1)), float64(max(int64(lease)-s.calls.left(), 0)))
	o.tokens, o.at = o.tokens-float64(s.unreported+demand.Unleased), now
}

// permits returns a replica's share of a limit. Another replica may exceed its share until its calls have ended: so
// its last known permits count for a while, and if they are unknown the replica begins with a fraction of its share.
func (o *localShare) permits(limit int64, now time.Duration, replicas int64) int64 {
	share := max(limit/replicas, 1)
	if o.silent == 0 {
		o.silent = now
	}
	switch {
	case o.asOf > 0 && now-o.asOf < permitTTL:
		return min(share, max(limit-o.others, 0))
	case replicas > 1 && now-o.silent < permitTTL:
		return max(share/unknownFraction, 1)
	}
	return share
}

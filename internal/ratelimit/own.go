package ratelimit

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// unheardOf is the part of its share of a budget that a replica may use of which the store never told
// it how much was used, and at first of places of which it does not know who has them.
const unheardOf = 10

// own is what a replica gives itself of a scope while the store does not answer.
type own struct {
	tokens     float64
	at         time.Duration // when that was so; 0: never
	day, month purseOf
	others     int64         // places that other replicas had
	told       time.Duration // when the store said so; 0: never
	silent     time.Duration // since when it answers nothing; 0: it does
}

// purseOf is what is left of a budget.
type purseOf struct {
	left int64
	ends time.Duration // 0: the store told nothing of it yet
}

// heard takes note of what the store said, so that it is known if it falls silent.
func (s *scope) heard(got *Answer, now time.Duration, replicas int64) {
	b := s.bounds.Load()
	s.day, s.month, s.ends = got.Day, got.Month, 0
	if got.Places >= 0 {
		s.own.others, s.own.told = got.Others, now
	}
	s.own.silent = 0
	if b.PerMonth > 0 {
		s.own.month = purseOf{max(int64(b.PerMonth)-got.Month.Calls, 0) / replicas, now + got.MonthEnds}
		s.ends = now + got.MonthEnds
	}
	if b.PerDay > 0 {
		s.own.day = purseOf{max(int64(b.PerDay)-got.Day.Calls, 0) / replicas, now + got.DayEnds}
		s.ends = now + got.DayEnds
	}
}

// share answers in the store's stead.
func (s *scope) share(asked *Ask, now time.Duration, replicas int64) Answer {
	b, o := &asked.Bounds, &s.own
	got := Answer{Calls: asked.Want}
	if b.CallsPerSecond > 0 {
		rate, burst := float64(b.CallsPerSecond)/float64(replicas), max(float64(b.Burst)/float64(replicas), 1)
		if o.at == 0 {
			o.tokens, o.at = burst, now
		}
		o.tokens, o.at = min(o.tokens+rate*(now-o.at).Seconds(), burst), now
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
		*purseOf
		next time.Time // when the present one ends
	}{{call.PerDay, b.PerDay, &o.day, today.Add(24 * time.Hour)}, {call.PerMonth, b.PerMonth, &o.month, month}} {
		if budget.most == 0 {
			continue
		}
		if budget.ends <= now {
			whole := int64(budget.most) / replicas
			if budget.ends == 0 {
				whole /= unheardOf
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
	if b.PerDay > 0 || b.PerMonth > 0 {
		s.owed += got.Calls
	}
	if b.Concurrent > 0 {
		got.own, got.fair = true, o.places(int64(b.Concurrent), now, replicas)
		got.Places = max(min(asked.Keep+asked.Need+asked.Spare, got.fair), asked.Used)
	}
	return got
}

// places are a replica's share of so many. Another one may have more than its share, until its calls have ended: what
// others had of late counts for a while, and where that is not known the replica begins with a part of its share.
func (o *own) places(limit int64, now time.Duration, replicas int64) int64 {
	share := max(limit/replicas, 1)
	if o.silent == 0 {
		o.silent = now
	}
	switch {
	case o.told > 0 && now-o.told < leased:
		return min(share, max(limit-o.others, 0))
	case replicas > 1 && now-o.silent < leased:
		return max(share/unheardOf, 1)
	}
	return share
}

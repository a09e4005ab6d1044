package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
)

// model is a Store in memory, with the semantics of the one in Redis.
type model struct {
	mu          sync.Mutex
	now         func() time.Time
	delay       func() time.Duration // before it answers; nil: none
	unavailable bool
	commands    int

	buckets map[ratelimit.Name]*bucket
	days    map[ratelimit.Name]ratelimit.BudgetUse
	places  map[ratelimit.Name]map[string]*holder
}

type bucket struct {
	tokens float64
	at     time.Time
}

type holder struct {
	held  int64
	wants time.Time // until when
	ends  time.Time
}

var errUnavailable = errors.New("unavailable")

func newModel() *model {
	m := &model{now: time.Now}
	m.empty()
	return m
}

func (m *model) empty() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buckets, m.days = map[ratelimit.Name]*bucket{}, map[ratelimit.Name]ratelimit.BudgetUse{}
	m.places = map[ratelimit.Name]map[string]*holder{}
}

// replica is one replica's view of the model. There is one tenant.
type replica struct {
	*model
	name string
}

// Exchange implements ratelimit.Store.
func (r replica) Exchange(_ context.Context, _ ratelimit.Owner, asks []ratelimit.Demand) ([]ratelimit.Grant, error) {
	r.mu.Lock()
	delay := r.delay
	r.mu.Unlock()
	if delay != nil {
		<-time.After(delay())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unavailable {
		return nil, errUnavailable
	}
	r.commands++
	answers := make([]ratelimit.Grant, len(asks))
	for i := range asks {
		answers[i] = r.answer(&asks[i])
	}
	return answers, nil
}

func (r replica) answer(a *ratelimit.Demand) ratelimit.Grant {
	now := r.now()
	got := ratelimit.Grant{Calls: a.Want}
	if a.Bounds.CallsPerSecond > 0 {
		b := r.buckets[a.Name]
		if b == nil {
			b = &bucket{float64(a.Bounds.Burst), now}
			r.buckets[a.Name] = b
		}
		rate := float64(a.Bounds.CallsPerSecond)
		b.tokens, b.at = min(b.tokens+now.Sub(b.at).Seconds()*rate+float64(a.Returned), float64(a.Bounds.Burst)), now
		if b.tokens < float64(got.Calls) {
			got.Calls = int64(b.tokens)
			got.Wait = time.Duration((1 - (b.tokens - float64(got.Calls))) / rate * float64(time.Second))
		}
		defer func() { b.tokens -= float64(got.Calls) }()
	}
	if a.Bounds.PerDay > 0 {
		today := now.UTC().Truncate(24 * time.Hour)
		spent, known := r.days[a.Name]
		if spent.Period != today.Unix() {
			known, spent = false, ratelimit.BudgetUse{Period: today.Unix()}
		}
		if !known && a.Day.Period == spent.Period {
			spent.Calls = a.Day.Calls
		}
		spent.Calls += a.Unleased
		if a.Day.Period == spent.Period {
			spent.Calls = max(spent.Calls-a.Returned, 0)
		}
		got.DayEnds = today.Add(24 * time.Hour).Sub(now)
		if left := max(int64(a.Bounds.PerDay)-spent.Calls, 0); left < got.Calls {
			got.Calls, got.Short, got.Wait = left, call.PerDay, got.DayEnds
		}
		spent.Calls += got.Calls
		r.days[a.Name], got.Day = spent, spent
	}
	if a.Bounds.Concurrent > 0 {
		got.Permits, got.Sharing, got.Others = r.place(a, now)
	}
	return got
}

func (r replica) place(a *ratelimit.Demand, now time.Time) (held, sharing, others int64) {
	all := r.places[a.Name]
	if all == nil {
		all = map[string]*holder{}
		r.places[a.Name] = all
	}
	var mine, waiting int64
	sharing = 1
	for name, h := range all {
		switch {
		case !h.ends.After(now):
			delete(all, name)
		case name == r.name:
			mine = h.held
		default:
			others += h.held
			sharing++
			if h.wants.After(now) {
				waiting++
			}
		}
	}
	held = max(a.Used, min(a.Retain, mine))
	free := max(int64(a.Bounds.Concurrent)-others-held, 0)
	more := min(a.Need, free)
	if waiting > 0 {
		more = max(min(more, max(int64(a.Bounds.Concurrent)/sharing, 1)-held), 0)
	}
	held += more
	if waiting == 0 {
		held += min(a.Spare, free-more)
		sharing = 0
	}
	mineNow := &holder{held: held, ends: now.Add(5 * time.Second)}
	if a.Need > more {
		mineNow.wants = now.Add(time.Second)
	}
	all[r.name] = mineNow
	return held, sharing, others
}

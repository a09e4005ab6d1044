package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/ratelimit/storetest"
)

// model is a Store in memory, with the semantics of the one in Redis.
type model struct {
	mu          sync.Mutex
	now         func() time.Time
	delay       func() time.Duration // before it answers; nil: none
	unavailable bool
	commands    int

	buckets map[scope]*bucket
	budgets map[budget]ratelimit.BudgetUse
	places  map[scope]map[string]*holder
	seen    map[string]int64 // the last sequence number, by tenant and replica
}

// scope is a tenant's.
type scope struct {
	of   ratelimit.Owner
	name ratelimit.Name
}

// budget is a day's or a month's.
type budget struct {
	scope
	limit call.Limit
}

type bucket struct {
	tokens, spills float64
	at             time.Time
}

type holder struct {
	held  int64
	wants time.Time // until when
	ends  time.Time
}

var (
	errUnavailable = errors.New("unavailable")
	errOvertaken   = errors.New("overtaken")
)

func newModel() *model {
	m := &model{now: time.Now}
	m.empty()
	return m
}

func (m *model) empty() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buckets, m.budgets = map[scope]*bucket{}, map[budget]ratelimit.BudgetUse{}
	m.places, m.seen = map[scope]map[string]*holder{}, map[string]int64{}
}

// replica is one replica's view of the model.
type replica struct {
	*model
	name  string
	ahead time.Duration // offset of its clock
}

func (m *model) replica(name string) replica { return replica{model: m, name: name} }

// TestTheModelKeepsTheContract: the fake is a store of limits like any other.
func TestTheModelKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().RunReplicas(t, func() func() storetest.Store {
		m, replicas := newModel(), 0
		return func() storetest.Store {
			replicas++
			return &replica{model: m, name: fmt.Sprint(replicas)}
		}
	})
}

// SetAhead implements storetest.Store.
func (r *replica) SetAhead(d time.Duration) { r.ahead = d }

// Exchange implements ratelimit.Store.
func (r replica) Exchange(_ context.Context, of ratelimit.Owner, asks []ratelimit.Demand) ([]ratelimit.Grant, error) {
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
	seq := asks[len(asks)-1].Seq
	me := of.ID + " " + of.UID + " " + r.name
	if seq <= r.seen[me] {
		return nil, errOvertaken
	}
	r.seen[me] = seq
	r.commands++
	answers := make([]ratelimit.Grant, len(asks))
	for i := range asks {
		answers[i] = r.answer(of, &asks[i])
	}
	return answers, nil
}

func (r replica) answer(of ratelimit.Owner, a *ratelimit.Demand) (got ratelimit.Grant) {
	now, its := r.now().Add(r.ahead), scope{of, a.Name}
	got = ratelimit.Grant{Calls: a.Want}
	if a.Bounds.CallsPerSecond > 0 {
		rate := float64(a.Bounds.CallsPerSecond)
		b := r.bucket(its, a, rate, now)
		if b.tokens < float64(got.Calls) {
			got.Calls = max(int64(b.tokens), 0)
			got.Wait = time.Duration((1 - (b.tokens - float64(got.Calls))) / rate * float64(time.Second))
		}
		defer func() {
			b.tokens -= float64(got.Calls)
			got.Bucket = ratelimit.Bucket{Tokens: int64(math.Floor(b.tokens)), Spills: int64(math.Ceil(b.spills))}
		}()
	}
	today := now.UTC().Truncate(24 * time.Hour)
	month := today.AddDate(0, 0, 1-today.Day())
	got.DayEnds, got.MonthEnds = today.AddDate(0, 0, 1).Sub(now), month.AddDate(0, 1, 0).Sub(now)
	got.Day = r.spent(a, budget{its, call.PerDay}, today, a.Day)
	got.Month = r.spent(a, budget{its, call.PerMonth}, month, a.Month)
	short(&got, call.PerDay, a.Bounds.PerDay, got.Day, got.DayEnds)
	short(&got, call.PerMonth, a.Bounds.PerMonth, got.Month, got.MonthEnds)
	got.Day.Calls += got.Calls
	got.Month.Calls += got.Calls
	r.budgets[budget{its, call.PerDay}], r.budgets[budget{its, call.PerMonth}] = got.Day, got.Month
	if a.Bounds.Concurrent > 0 {
		got.Permits, got.Sharing, got.Others = r.place(its, a, now)
	}
	return got
}

// bucket returns the bucket of a rate with what a demand reports.
func (r replica) bucket(its scope, a *ratelimit.Demand, rate float64, now time.Time) *bucket {
	b, aged := r.buckets[its], rate*a.Age.Seconds()
	switch {
	case b != nil && now.Sub(b.at) < -ratelimit.DebtTime: // the clock was ahead
	case b != nil:
		b.tokens += now.Sub(b.at).Seconds() * rate
	case a.Bucket.Spills > 0:
		b = &bucket{tokens: float64(a.Bucket.Tokens) + aged, spills: float64(a.Bucket.Spills)}
	default:
		b = &bucket{tokens: float64(a.Bounds.Burst) + aged, spills: 1}
	}
	r.buckets[its] = b
	seen := float64(a.Bucket.Spills)
	if seen == 0 {
		seen = max(b.spills-aged, 0)
	}
	paid := min(max(b.spills-seen, 0), float64(a.Unleased))
	b.tokens += float64(a.Returned-a.Unleased) + paid
	b.spills += max(b.tokens-float64(a.Bounds.Burst), 0) - paid
	b.tokens, b.at = max(min(b.tokens, float64(a.Bounds.Burst)), -rate*ratelimit.DebtTime.Seconds()), now
	return b
}

// spent returns the use of a budget with what a demand reports.
func (r replica) spent(a *ratelimit.Demand, of budget, period time.Time,
	said ratelimit.BudgetUse) ratelimit.BudgetUse {
	spent, known := r.budgets[of]
	if spent.Period < period.Unix() { // a later one is that of a clock that was ahead
		known, spent = false, ratelimit.BudgetUse{Period: period.Unix()}
	}
	if !known && said.Period == spent.Period {
		spent.Calls = said.Calls
	}
	spent.Calls += a.Unleased
	if said.Period == spent.Period {
		spent.Calls = max(spent.Calls-a.Returned, 0)
	}
	return spent
}

// short reduces a grant to what a budget has left; 0: there is no such budget.
func short(got *ratelimit.Grant, of call.Limit, most int, spent ratelimit.BudgetUse, ends time.Duration) {
	if left := max(int64(most)-spent.Calls, 0); most > 0 && left < got.Calls {
		got.Calls, got.Short, got.Wait = left, of, ends
	}
}

func (r replica) place(its scope, a *ratelimit.Demand, now time.Time) (held, sharing, others int64) {
	all := r.places[its]
	if all == nil {
		all = map[string]*holder{}
		r.places[its] = all
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
	spare := a.Spare + a.Retain - held
	free := max(int64(a.Bounds.Concurrent)-others-held, 0)
	more := min(a.Need, free)
	if waiting > 0 {
		more = max(min(more, (int64(a.Bounds.Concurrent)+sharing-1)/sharing-held), 0)
	}
	held += more
	if waiting == 0 {
		held += min(spare, free-more)
		sharing = 0
	}
	mineNow := &holder{held: held, ends: now.Add(5 * time.Second)}
	if a.Need > more {
		mineNow.wants = now.Add(time.Second)
	}
	if all[r.name] = mineNow; held == 0 && a.Need == more {
		delete(all, r.name)
	}
	return held, sharing, others
}

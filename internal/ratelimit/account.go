package ratelimit

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// account is a tenant's.
type account struct {
	limiter *Limiter
	owner   Owner
	meter   Meter
	plan    atomic.Pointer[plan]

	mu      sync.Mutex
	due     []*scope // of which there is something to say
	waiting []func() // calls to go on after the next exchange
	asked   bool     // it is among the limiter's due
	late    bool     // the store owes an answer for too long
	valued  int      // scopes of one value
	gone    bool
}

// plan is what a tenant's limits are. It is never changed.
type plan struct {
	limits tenant.Limits
	rules  []rule
}

// rule is one of the limits.
type rule struct {
	of     tenant.Limit
	scope  *scope  // nil: one for each value
	values *values // or this
}

// values are the scopes of a limit per user, or the like.
type values struct {
	by     sync.Map // value → *scope
	others *scope
}

// sameLimits compares what the limiter is about.
func sameLimits(a, b *tenant.Limits) bool {
	return a.Bounds == b.Bounds && a.Shadow == b.Shadow && slices.Equal(a.Each, b.Each)
}

// configure puts limits in force. What is known of limits that stay is kept.
func (a *account) configure(l *tenant.Limits) *plan {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.plan.Load()
	if before != nil && sameLimits(&before.limits, l) {
		return before
	}
	next := &plan{limits: *l}
	if !l.Empty() {
		next.rules = append(next.rules, a.rule(before, tenant.Limit{Bounds: l.Bounds}))
	}
	for i := range l.Each {
		next.rules = append(next.rules, a.rule(before, l.Each[i]))
	}
	a.recount(next)
	a.plan.Store(next)
	return next
}

// recount forgets the scopes of rules that are no more. The caller holds mu.
func (a *account) recount(next *plan) {
	had := a.valued
	a.valued = 0
	for i := range next.rules {
		if v := next.rules[i].values; v != nil {
			v.by.Range(func(any, any) bool {
				a.valued++
				return true
			})
		}
	}
	a.limiter.valued.Add(int64(a.valued - had))
}

func (a *account) rule(before *plan, l tenant.Limit) rule {
	of := l.Selector()
	r := rule{of: of}
	r.of.Bounds = l.Bounds
	if before != nil {
		if i := slices.IndexFunc(before.rules, func(r rule) bool { return r.of.Selector() == of }); i >= 0 {
			r.scope, r.values = before.rules[i].scope, before.rules[i].values
			r.each(func(s *scope) {
				s.bounds.Store(&l.Bounds)
				s.spent.Store(nil)
				s.full.Store(nil)
			})
			return r
		}
	}
	name := Name{Per: of.Per, Capability: of.Capability, Tool: of.Tool}
	if of.Per == "" {
		r.scope = newScope(a, name, a.limiter.stripes, l.Bounds)
		return r
	}
	name.Others = true
	r.values = &values{others: newScope(a, name, a.limiter.stripes, l.Bounds)}
	return r
}

// each visits the scopes of a rule.
func (r *rule) each(f func(*scope)) {
	if r.scope != nil {
		f(r.scope)
		return
	}
	f(r.values.others)
	r.values.by.Range(func(_, s any) bool {
		f(s.(*scope))
		return true
	})
}

// scopeOf is the scope of a call, nil if the rule is not about it.
func (r *rule) scopeOf(a *account, c *call.Call) *scope {
	switch {
	case r.of.Capability != "" && r.of.Capability != c.Capability, r.of.Tool != "" && r.of.Tool != c.Tool:
		return nil
	case r.scope != nil:
		return r.scope
	}
	var value string
	switch r.of.Per {
	case "user":
		value = c.User
	case "agent":
		value = c.Agent
	case "capability":
		value = c.Capability
	}
	if s, ok := r.values.by.Load(value); ok {
		return s.(*scope)
	}
	return a.meet(r, value)
}

// meet makes the scope of a value that was not seen of late. If there are too many, those that are new share one.
func (a *account) meet(r *rule, value string) *scope {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s, ok := r.values.by.Load(value); ok {
		return s.(*scope)
	}
	if a.gone || a.valued >= ofTenant || a.limiter.valued.Load() >= ofAll {
		return r.values.others
	}
	a.valued++
	a.limiter.valued.Add(1)
	value = strings.Clone(value)
	s := newScope(a, Name{Per: r.of.Per, Capability: r.of.Capability, Tool: r.of.Tool, Value: value}, 1, r.of.Bounds)
	r.values.by.Store(value, s)
	return s
}

// touch has the store asked about a scope. The caller holds mu.
func (a *account) touch(s *scope) {
	if s.due.CompareAndSwap(false, true) {
		a.due = append(a.due, s)
	}
	if !a.asked {
		a.asked = true
		a.limiter.ask(a)
	}
}

// tick gives back what nobody needs, renews places, and forgets scopes of values without calls. It returns when
// something ends next, if that is before soonest, and whether there is nothing to remember.
func (a *account) tick(now, soonest time.Duration) (next time.Duration, idle bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle = len(a.waiting) == 0 && !a.asked
	p := a.plan.Load()
	for i := range p.rules {
		r := &p.rules[i]
		r.each(func(s *scope) {
			quiet := s.tick(now)
			if s.ends > 0 {
				soonest = min(soonest, s.ends)
			}
			switch {
			case !quiet:
				idle = false
			case r.values != nil && s != r.values.others && s.quiet > idleTicks:
				s.gone = true
				r.values.by.Delete(s.name.Value)
				a.valued--
				a.limiter.valued.Add(-1)
			}
			idle = idle && s.quiet >= goneTicks
		})
	}
	return soonest, idle
}

// tick says whether the store has nothing of this replica in the scope. The caller holds the account's lock.
func (s *scope) tick(now time.Duration) (quiet bool) {
	if s.ends > 0 && now >= s.ends {
		s.in -= s.calls.drain(s.calls.left()) // they were of the day before
		s.ends = 0
		s.spent.Store(nil)
	}
	s.quiet++
	s.look(now)
	s.before, s.peak = s.peak, s.held-s.places.left()
	if s.placed.Swap(false) {
		s.before, s.quiet = max(s.before, 1), 0
	}
	if s.quiet == idleTicks {
		n := s.calls.drain(s.calls.left())
		s.in -= n
		if b := s.bounds.Load(); b.PerDay > 0 || b.PerMonth > 0 {
			s.back += n
		}
	}
	if s.held > 0 || s.back > 0 || s.owed > 0 || s.yielded.Load() > 0 {
		s.of.touch(s)
	}
	return s.quiet >= idleTicks && s.held == 0 && s.back == 0 && s.owed == 0 && s.need == 0 && s.wanting == 0 && !s.due.Load()
}

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

// tenantState is the state of a tenant's limits.
type tenantState struct {
	limiter *Limiter
	owner   Owner
	meter   Meter
	plan    atomic.Pointer[plan]

	mu          sync.Mutex
	due         []*scope    // scopes with demands
	waiting     []func()    // calls to resume after the next exchange
	scheduled   bool        // it is in the limiter's queue
	late        bool        // the store's response is late
	valueScopes int         // scopes of one value
	gone        atomic.Bool // it is removed; set under mu
}

// plan has a tenant's limits. It is immutable.
type plan struct {
	limits tenant.Limits
	rules  []rule
}

// rule is one limit.
type rule struct {
	of     tenant.Limit
	scope  *scope  // nil: one for each value
	values *values // nil: one scope
}

// values has the scopes of a limit per user, agent or capability.
type values struct {
	by     sync.Map // value → *scope
	others *scope
}

// sameLimits compares the limits that the limiter enforces.
func sameLimits(a, b *tenant.Limits) bool {
	return a.Bounds == b.Bounds && a.Shadow == b.Shadow && slices.Equal(a.Each, b.Each)
}

// configure sets the limits. Unchanged limits keep their scopes.
func (a *tenantState) configure(l *tenant.Limits) *plan {
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

// recount counts the scopes of values after a change of rules. The caller holds mu.
func (a *tenantState) recount(next *plan) {
	had := a.valueScopes
	a.valueScopes = 0
	for i := range next.rules {
		if v := next.rules[i].values; v != nil {
			v.by.Range(func(any, any) bool {
				a.valueScopes++
				return true
			})
		}
	}
	a.limiter.valueScopes.Add(int64(a.valueScopes - had))
}

func (a *tenantState) rule(before *plan, l tenant.Limit) rule {
	of := l.Selector()
	r := rule{of: of}
	r.of.Bounds = l.Bounds
	if before != nil {
		if i := slices.IndexFunc(before.rules, func(r rule) bool { return r.of.Selector() == of }); i >= 0 {
			r.scope, r.values = before.rules[i].scope, before.rules[i].values
			r.each(func(s *scope) {
				s.bounds.Store(&l.Bounds)
				s.callsDenied.Store(nil)
				s.concurrentDenied.Store(nil)
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

// scopeOf returns the scope of a call, nil if the rule does not apply.
func (r *rule) scopeOf(a *tenantState, c *call.Call) *scope {
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
	return a.scopeFor(r, value)
}

// scopeFor returns the scope of a value, which it creates if needed. If there are too many, new values share one.
func (a *tenantState) scopeFor(r *rule, value string) *scope {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s, ok := r.values.by.Load(value); ok {
		return s.(*scope)
	}
	if a.gone.Load() || a.valueScopes >= maxTenantScopes || a.limiter.valueScopes.Load() >= maxScopes {
		return r.values.others
	}
	a.valueScopes++
	a.limiter.valueScopes.Add(1)
	value = strings.Clone(value)
	s := newScope(a, Name{Per: r.of.Per, Capability: r.of.Capability, Tool: r.of.Tool, Value: value}, 1, r.of.Bounds)
	r.values.by.Store(value, s)
	return s
}

// schedule schedules an exchange for a scope. The caller holds mu.
func (a *tenantState) schedule(s *scope) {
	if s.due.CompareAndSwap(false, true) {
		a.due = append(a.due, s)
	}
	if !a.scheduled {
		a.scheduled = true
		a.limiter.enqueue(a)
	}
}

// tick returns unused leases, renews permits, and removes scopes of idle values. next is the earliest expiry before
// soonest; idle reports whether the state can be removed.
func (a *tenantState) tick(now, soonest time.Duration) (next time.Duration, idle bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle = len(a.waiting) == 0 && !a.scheduled
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
				a.valueScopes--
				a.limiter.valueScopes.Add(-1)
			}
			idle = idle && s.quiet >= goneTicks
		})
	}
	return soonest, idle
}

// tick reports whether the scope is idle and the store has nothing of this replica. The caller holds the lock of the
// tenant's state.
func (s *scope) tick(now time.Duration) (quiet bool) {
	if s.ends > 0 && now >= s.ends {
		s.granted -= s.calls.drain(s.calls.left()) // they belong to the previous period
		s.ends = 0
		s.callsDenied.Store(nil)
	}
	s.quiet++
	s.measure(now)
	s.second.roll(now, s.used())
	s.before, s.peak = s.peak, s.held-s.permits.left()
	if s.acquired.Swap(false) {
		s.before, s.quiet = max(s.before, 1), 0
	}
	s.note()
	if s.quiet == idleTicks {
		n := s.calls.drain(s.calls.left())
		s.granted -= n
		if b := s.bounds.Load(); b.PerDay > 0 || b.PerMonth > 0 {
			s.returned += n
		}
	}
	if s.held > 0 || s.returned > 0 || s.unreported > 0 || s.yielded.Load() > 0 {
		s.of.schedule(s)
	}
	return s.quiet >= idleTicks && s.held == 0 && s.returned == 0 && s.unreported == 0 && s.need == 0 &&
		s.wanting == 0 && !s.due.Load()
}

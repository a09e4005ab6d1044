package recent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/search"
)

// Filter selects calls; empty fields select all.
type Filter struct {
	Tenants                       []string // nil: all
	User, Agent, Capability, Tool string
	Reason                        string // "*": any refusal, but not calls that wait for approval
	Code                          string // "*": any but OK
	Outcome                       string // of the tool; "*": any but success
	Query                         search.Query
	Took                          time.Duration
}

// Matches reports whether a call is selected. Texts are compared as far as calls have them.
func (f *Filter) Matches(c *Call) bool {
	return among(f.Tenants, c.Tenant) && same(f.User, c.User) && same(f.Agent, c.Agent) &&
		same(f.Capability, c.Capability) && same(f.Tool, c.Tool) &&
		(same(f.Reason, c.Reason) || f.Reason == "*" && c.Reason != "" && !call.Asked(c.Reason)) &&
		(same(f.Code, c.Code) || f.Code == "*" && c.Failed()) &&
		(same(f.Outcome, c.Outcome) || f.Outcome == "*" && c.unsuccessful()) && c.Took >= f.Took &&
		(len(f.Query) == 0 || f.Query.Matches(c.ID, c.RequestID, c.Trace, c.Approval, c.Tenant, c.User, c.Agent, c.Key,
			c.Capability, c.Tool, c.Backend, c.Code, c.Reason, c.Failure))
}

// selects is Matches of a filter that may be nil.
func (f *Filter) selects(c *Call) bool { return f == nil || f.Matches(c) }

// among reports whether is names one of the tenants; nil: all tenants.
func among(tenants []string, is string) bool {
	return tenants == nil || slices.ContainsFunc(tenants, func(name string) bool { return cut(name) == is })
}

func same(wanted, is string) bool { return wanted == "" || cut(wanted) == is }

// sortCalls puts the newest first. Two calls never compare as equal.
func sortCalls(calls []Call) {
	slices.SortFunc(calls, func(a, b Call) int {
		if c := b.Ended.Compare(a.Ended); c != 0 {
			return c
		}
		return cmp.Compare(b.ID, a.ID)
	})
}

// Calls returns the calls of all replicas, the newest first, or those of this replica if the store does not respond:
// then partial is true.
func (l *Log) Calls(ctx context.Context) (calls []Call, partial bool) {
	if l.cfg.Store != nil {
		shared, err := l.cfg.Store.Calls(ctx)
		if err == nil {
			// calls that are not published yet are left out
			calls = shared
			sortCalls(calls)
			return calls, false
		}
	}
	l.mu.Lock()
	var slots []slot
	if l.ring != nil {
		l.merge(l.cfg.Now())
		slots = l.ring.all()
	}
	l.mu.Unlock()
	for i := range slots {
		calls = append(calls, slots[i].call(l.cfg.Replica, l.process))
	}
	sortCalls(calls)
	return calls, l.cfg.Store != nil
}

// Changes returns the changes of all replicas, the newest first, or those of this replica if the store does not
// respond: then partial is true.
func (l *Log) Changes(ctx context.Context) (changes []Change, partial bool) {
	if l.cfg.Store != nil {
		if changes, err := l.cfg.Store.Changes(ctx); err == nil {
			return changes, false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	changes = slices.Clone(l.changes)
	slices.Reverse(changes)
	return changes, l.cfg.Store != nil
}

// Minutes returns the counts of the last Window minutes, the oldest first: the sum of some tenants; nil: of all.
// If the store does not respond, they are those of this replica, and partial is true.
func (l *Log) Minutes(ctx context.Context, tenants []string) (list []Minute, partial bool) {
	l.mu.Lock()
	list = l.own.list(l.cfg.Now(), tenants)
	l.mu.Unlock()
	if l.cfg.Store == nil {
		return list, false
	}
	numbers := make([]int64, len(list))
	for i := range list {
		numbers[i] = minuteOf(list[i].Began)
	}
	counts, err := l.cfg.Store.Minutes(ctx, numbers, tenants)
	if err != nil || len(counts) != len(list) {
		return list, true
	}
	for i := range list {
		list[i].Counts = counts[i]
	}
	return list, false
}

// Replicas returns the replicas that said something lately, by their ids. If the store does not respond, there is only
// this one, and partial is true.
func (l *Log) Replicas(ctx context.Context) (list []Replica, partial bool) {
	self := l.self(l.cfg.Now())
	if l.cfg.Store != nil {
		var err error
		list, err = l.cfg.Store.Replicas(ctx, fresh)
		partial = err != nil
	}
	list = slices.DeleteFunc(list, func(r Replica) bool { return r.ID == self.ID })
	list = append(list, self)
	slices.SortFunc(list, func(a, b Replica) int { return cmp.Compare(a.ID, b.ID) })
	return list, partial
}

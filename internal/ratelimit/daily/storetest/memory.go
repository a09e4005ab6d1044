// Package storetest has the tests of every daily.Store, and a store in memory that passes them.
package storetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/ratelimit/daily"
)

// Memory is a daily.Store in memory. The zero value is empty. It deletes nothing.
type Memory struct {
	Fails func() error // the result of Raise if it is not nil; optional

	mu   sync.Mutex
	days map[ratelimit.Owner]map[daily.Use]*daily.Use // by the limit and the day
	near map[ratelimit.Owner]map[daily.Use]*daily.Use // by the limit
	ends map[string]time.Time                         // by tenant

	noticed map[ratelimit.Owner]map[daily.Use]int64 // greatest Most that was near in the period of near
}

var _ daily.Store = (*Memory)(nil)

// limitOf returns a use without its numbers.
func limitOf(u *daily.Use) daily.Use {
	return daily.Use{Limit: u.Limit, Per: u.Per, Capability: u.Capability, Tool: u.Tool}
}

// put returns the use of a limit in the record of a tenant, and whether it is new. A full record has no room: nil.
func put(all map[ratelimit.Owner]map[daily.Use]*daily.Use, of ratelimit.Owner, key daily.Use) (u *daily.Use, is bool) {
	record := all[of]
	if record == nil {
		record = map[daily.Use]*daily.Use{}
		all[of] = record
	}
	if u = record[key]; u != nil {
		return u, false
	}
	same := 0
	for other := range record {
		if other.Day == key.Day {
			same++
		}
	}
	if same >= daily.MaxLimits {
		return nil, true
	}
	u = new(daily.Use)
	record[key] = u
	return u, true
}

// Raise implements daily.Store.
func (m *Memory) Raise(_ context.Context, of ratelimit.Owner, uses []daily.Use) (first []int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Fails != nil {
		if err = m.Fails(); err != nil {
			return nil, err
		}
	}
	if m.days == nil {
		m.days, m.near = map[ratelimit.Owner]map[daily.Use]*daily.Use{}, map[ratelimit.Owner]map[daily.Use]*daily.Use{}
		m.ends, m.noticed = map[string]time.Time{}, map[ratelimit.Owner]map[daily.Use]int64{}
	}
	for i, u := range uses {
		key := limitOf(&u)
		key.Day = u.Day
		if to, _ := put(m.days, of, key); to != nil {
			used := max(to.Used, u.Used)
			*to = u
			to.Used, to.Period = used, 0
		}
		if !u.Near() {
			continue
		}
		if end := u.Ends(); end.After(m.ends[of.ID]) {
			m.ends[of.ID] = end
		}
		if key.Day = 0; m.raiseNear(of, key, &u) {
			first = append(first, i)
		}
	}
	return first, nil
}

// raiseNear records a use that is near its limit. It reports whether it is that for the first time.
func (m *Memory) raiseNear(of ratelimit.Owner, key daily.Use, u *daily.Use) (first bool) {
	to, _ := put(m.near, of, key)
	if to == nil {
		m.near[of] = nil
		to, _ = put(m.near, of, key)
	}
	if u.Period < to.Period {
		return false
	}
	if m.noticed[of] == nil {
		m.noticed[of] = map[daily.Use]int64{}
	}
	used, noticed := u.Used, m.noticed[of][key]
	if to.Period < u.Period {
		noticed = 0
	} else if to.Most == u.Most {
		used = max(used, to.Used)
	}
	m.noticed[of][key] = max(noticed, u.Most)
	*to = *u
	to.Used, to.Day = used, 0
	return u.Most > noticed
}

// Uses implements daily.Store.
func (m *Memory) Uses(_ context.Context, of ratelimit.Owner, from, to int64) (all []daily.Use, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := from; at <= to; at++ {
		for _, u := range m.days[of] {
			if u.Day == at {
				all = append(all, *u)
			}
		}
	}
	return all, nil
}

// NearUses implements daily.Store.
func (m *Memory) NearUses(_ context.Context, of ratelimit.Owner) (all []daily.Use, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.near[of] {
		all = append(all, *u)
	}
	return all, nil
}

// NearTenants implements daily.Store.
func (m *Memory) NearTenants(_ context.Context, named []string, skip, most int) (ids []string, all int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if named == nil {
		for id := range m.ends {
			named = append(named, id)
		}
		slices.Sort(named)
	}
	for _, id := range named {
		if m.ends[id].After(time.Now()) {
			if all++; all > skip && len(ids) < most {
				ids = append(ids, id)
			}
		}
	}
	return ids, all, nil
}

// ForgetNear implements daily.Store.
func (m *Memory) ForgetNear(_ context.Context, ids []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.ends, id)
	}
	return nil
}

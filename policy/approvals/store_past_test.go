package approvals_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// memoryPast has the past approvals of a memory. Its owner locks it.
type memoryPast struct {
	all   []approvals.Past // oldest first
	days  map[int64]map[approvals.Series]approvals.Tally
	times map[string][2]time.Time // creation and expiry, by approval
}

func (m *memoryPast) created(d *approvals.Draft) {
	if m.times == nil {
		m.times, m.days = map[string][2]time.Time{}, map[int64]map[approvals.Series]approvals.Tally{}
	}
	m.times[d.ID] = [2]time.Time{time.Now(), time.Now().Add(d.TTL)}
}

// expired reports whether a pending approval has expired, and if so stores it as past.
func (m *memoryPast) expired(r *approvals.Record) bool {
	until := m.times[r.ID][1]
	if until.IsZero() || time.Now().Before(until) {
		return false
	}
	m.ended(r, approvals.PastExpired, nil)
	return true
}

// ended stores an approval as past.
func (m *memoryPast) ended(r *approvals.Record, as approvals.Outcome, by []string) {
	now, asked := time.Now(), m.times[r.ID][0]
	p := approvals.Past{ID: r.ID, Tenant: r.Tenant, User: r.User, Agent: r.Agent, Capability: r.Capability,
		Tool: r.Tool, RequestID: r.RequestID, Outcome: as, Created: asked, Ended: now, Kept: now, By: r.By,
		Comment: r.Comment, Remember: r.Remember}
	m.all = append(m.all, p)
	series := []approvals.Series{{}, {Kind: approvals.OfTool, Capability: r.Capability, Tool: r.Tool}}
	text := map[approvals.Outcome]string{approvals.PastApproved: "1,0,0,0,1", approvals.PastDenied: "0,1,0,0,1",
		approvals.PastExpired: "0,0,1", approvals.PastWithdrawn: "0,0,0,1"}[as]
	for _, name := range by {
		series = append(series, approvals.Series{Kind: approvals.OfPerson, By: name})
	}
	day := now.Unix() / 86400
	if m.days[day] == nil && m.days != nil {
		m.days[day] = map[approvals.Series]approvals.Tally{}
	}
	for _, of := range series {
		if tally, ok := approvals.ParseTally(text); ok && m.days != nil {
			known := m.days[day][of]
			known.Add(&tally)
			m.days[day][of] = known
		}
	}
}

func (m *memory) Past(_ context.Context, tenant string, from, to time.Time, before string, most int) (
	page []approvals.Past, next string, err error) {
	leave, err := m.enter()
	defer leave()
	last := len(m.past.all)
	if before != "" {
		_, number, _ := strings.Cut(before, "-")
		last, _ = strconv.Atoi(number)
	}
	for i := last - 1; i >= 0 && len(page) < most && err == nil; i-- {
		if p := m.past.all[i]; p.Tenant == tenant && !p.Kept.Before(from) && !p.Kept.After(to) {
			page, next = append(page, p), fmt.Sprintf("%d-%d", p.Kept.UnixMilli(), i)
		}
	}
	if len(page) < most {
		next = ""
	}
	return page, next, err
}

func (m *memory) Days(_ context.Context, _ string, days []int64) (all []map[approvals.Series]approvals.Tally,
	err error) {
	leave, err := m.enter()
	defer leave()
	for _, day := range days {
		all = append(all, m.past.days[day])
	}
	return all, err
}

func (m *memory) PastTenants(_ context.Context, tenants []string) (those []string, err error) {
	leave, err := m.enter()
	defer leave()
	for _, of := range tenants {
		if slices.ContainsFunc(m.past.all, func(p approvals.Past) bool { return p.Tenant == of }) {
			those = append(those, of)
		}
	}
	return those, err
}

// expiring returns a page in the order of expiry. Its owner must hold the lock.
func (m *memory) expiring(s approvals.State, after string, most int) (page []approvals.Record, next string, err error) {
	rank := func(id string) string { return fmt.Sprintf("%020d %s", m.past.times[id][1].UnixNano(), id) }
	for id, r := range m.records {
		if (s == 0 || s == r.State) && rank(id) > after {
			page = append(page, r)
		}
	}
	slices.SortFunc(page, func(a, b approvals.Record) int { return cmp.Compare(rank(a.ID), rank(b.ID)) })
	if len(page) > most {
		page = page[:most]
		next = rank(page[most-1].ID)
	}
	return page, next, nil
}

package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/archive"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/policy/approvals"
)

// TestPastApprovalsAreErased: a deleted tenant leaves no approvals that have ended to the next one of its name.
func TestPastApprovalsAreErased(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, now := open(), time.Now()
		k := service(t, s, approvals.Options{})
		check.Must(t, s.Tenants().CreateTenant(t.Context(), storetest.Record("acme", "u1")))
		r := request(`{}`)
		r.Tenant = "acme"
		approve(t, k, ask(t, k, r), approvals.Answer{By: "ann"})
		want := func(n int) {
			t.Helper()
			week := archive.Range{From: now.Add(-time.Hour), To: now.Add(time.Hour), Most: 9}
			found, err := k.Past(t.Context(), []string{"acme"}, &approvals.PastFilter{}, week)
			check.Must(t, err)
			counted, err := k.Statistics(t.Context(), []string{"acme"}, week.From, week.To, nil)
			if err != nil || len(found.Entries) != n || counted.All.All() != int64(n) {
				t.Errorf("%d approvals and %d counted, %v; want %d", len(found.Entries), counted.All.All(), err, n)
			}
		}
		want(1)
		check.Must(t, s.Tenants().DeleteTenant(t.Context(), "acme", 0, false))
		want(0)
	})
}

// TestAnApprovalEndsWithoutItsRecord: an approval whose end cannot be recorded is answered nevertheless, and counted as
// malformed.
func TestAnApprovalEndsWithoutItsRecord(t *testing.T) {
	t.Parallel()
	url, raw := startRaw(t)
	s := open(t, redisstore.Config{URL: url})
	k, r := service(t, s, approvals.Options{}), request(`{}`)
	r.Tenant = "acme"
	a := ask(t, k, r)
	check.Must(t, raw.Set(t.Context(), "cg:{acme:approvals}:past", "no stream", 0).Err())
	approve(t, k, a, approvals.Answer{By: "ann"})
	if n := s.Stats().Malformed; n != 1 {
		t.Errorf("%d malformed values, want 1", n)
	}
}

// TestPastApprovalsAreBounded: a tenant has so many approvals that have ended, and a day counts so many tools. The
// numbers of the day are whole. It measures the bytes that docs/run/sizing.md says.
func TestPastApprovalsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 300
	server := redistest.Start(t)
	s := open(t, redisstore.Config{URL: server.URL()})
	options, err := redis.ParseURL(server.URL())
	check.Must(t, err)
	raw := redis.NewClient(options)
	t.Cleanup(func() { _ = raw.Close() })
	k := service(t, s, approvals.Options{})
	answer := func(i int) {
		r := request(`{}`)
		r.Tenant, r.Tool, r.Capability = "acme", fmt.Sprint("tool-", i%500), "weather-forecast"
		r.User, r.Agent, r.RequestID = "ann@example.com", "planner", "0190f1c2-7a54-7c39-8d5c-0a4b1a2f3c4d"
		r.Args, r.Session = fmt.Appendf(nil, `{"n":%d}`, i), ""
		a := ask(t, k, r)
		_, err := k.Deny(t.Context(), "acme", a.ID,
			approvals.Answer{By: "bob@example.com", Comment: "not before Monday"})
		check.Must(t, err)
	}
	for i := range approvals.MaxPast + 300 {
		answer(i)
	}
	kept := raw.XLen(t.Context(), "cg:{acme:approvals}:past").Val()
	if kept < approvals.MaxPast || kept > approvals.MaxPast+200 {
		t.Errorf("%d approvals are kept", kept)
	}
	bytes := raw.MemoryUsage(t.Context(), "cg:{acme:approvals}:past", 0).Val() / kept
	if t.Logf("%d bytes for each", bytes); bytes > most || bytes < most/4 {
		t.Errorf("an approval has %d bytes, and the page says up to %d", bytes, most)
	}
	var series, day int64
	for _, key := range raw.Keys(t.Context(), "cg:{acme:approvals}:day:*").Val() {
		series += raw.HLen(t.Context(), key).Val()
		day += raw.MemoryUsage(t.Context(), key, 0).Val()
		if !strings.HasPrefix(raw.HGet(t.Context(), key, "all").Val(), "0,") {
			t.Error("the numbers of all approvals are not the first ones")
		}
	}
	t.Logf("%d bytes for %d series", day, series)
	now := time.Now()
	counted, err := k.Statistics(t.Context(), []string{"acme"}, now.Add(-time.Hour), now, nil)
	check.Must(t, err)
	if n := counted.All.Of(approvals.PastDenied); n != approvals.MaxPast+300 || series > 2*(approvals.MaxSeries+2) ||
		len(counted.Tools) != 101 || !counted.Tools[100].Others {
		t.Errorf("%d counted in %d series, %d tools", n, series, len(counted.Tools))
	}
	var tools int64
	for i := range counted.Tools {
		tools += counted.Tools[i].All()
	}
	if tools != approvals.MaxPast+300 {
		t.Errorf("the tools have %d approvals", tools)
	}
}

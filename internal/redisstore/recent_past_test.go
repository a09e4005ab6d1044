package redisstore_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/archive"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

func pastCall(tenant, id string, ended time.Time) recent.Call {
	return recent.Call{ID: id, Ended: ended.UTC(), Replica: "a", Took: time.Second,
		Summary: telemetry.Summary{Tenant: tenant, Code: "OK", User: id, Tool: "get"}}
}

// TestArchivedCalls: a call is found at every replica by its tenant, its time and its user, page by page. A tenant
// displaces only its own calls, and a deleted one leaves none.
func TestArchivedCalls(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx, now := t.Context(), time.Now()
		writes, s := open().Recent(), open()
		bounds := recent.Bounds{Calls: 200, Days: 1}
		l := recent.New(recent.Config{Keep: 1, Archive: s.Recent(), Bounds: bounds})
		var batch []recent.Call
		for i := range 100 {
			batch = append(batch, pastCall("acme", "a"+strconv.Itoa(i), now.Add(-time.Duration(100-i)*time.Second)))
		}
		batch = append(batch, pastCall("globex", "g", now), pastCall("", "nobody's", now.Add(-time.Second)))
		check.Must(t, writes.Keep(ctx, batch, bounds))
		search := func(s recent.Search) archive.Found[recent.Call] {
			t.Helper()
			found, err := l.Search(ctx, &s)
			check.Must(t, err)
			return found
		}
		week := recent.Search{Range: archive.Range{From: now.Add(-time.Hour), To: now.Add(time.Second), Most: 40}}
		seen, pages := map[string]bool{}, 0
		for s := week; ; s.Before = search(s).Next {
			found := search(s)
			for i := range found.Entries {
				seen[found.Entries[i].ID] = true
			}
			if pages++; found.Next == "" || pages > 9 || found.Incomplete {
				break
			}
		}
		if len(seen) != 102 || pages != 3 {
			t.Errorf("%d calls on %d pages", len(seen), pages)
		}
		for id, s := range map[string]recent.Search{
			"a7":       {Filter: recent.Filter{User: "a7"}},
			"g":        {Filter: recent.Filter{Tenants: []string{"globex"}}},
			"nobody's": {Filter: recent.Filter{Tenants: []string{""}}},
			"a0": {Filter: recent.Filter{Tenants: []string{"acme"}},
				Range: archive.Range{To: now.Add(-99500 * time.Millisecond)}},
		} {
			s.From, s.Most = week.From, 40
			if s.To.IsZero() {
				s.To = week.To
			}
			if got := search(s); len(got.Entries) != 1 || got.Entries[0].ID != id || got.Incomplete {
				t.Errorf("%s: %+v", id, got)
			}
		}
		var flood []recent.Call
		for i := range 1000 {
			flood = append(flood, pastCall("acme", "f"+strconv.Itoa(i), now))
		}
		check.Must(t, writes.Keep(ctx, flood, bounds))
		all := archive.Range{From: week.From, To: week.To, Most: 5000}
		if got := search(recent.Search{Range: all}); len(got.Entries) > 402 {
			t.Errorf("%d calls are kept", len(got.Entries))
		} else if got := search(recent.Search{Range: archive.Range{From: week.From, To: week.To, Most: 9},
			Filter: recent.Filter{Tenants: []string{"globex"}}}); len(got.Entries) != 1 {
			t.Error("a tenant displaced the call of another")
		}
		tenants := s.Tenants()
		check.Must(t, tenants.CreateTenant(ctx, storetest.Record("acme", "u1")))
		check.Must(t, tenants.DeleteTenant(ctx, "acme", 0, false))
		if got := search(week); len(got.Entries) != 2 {
			t.Errorf("after the tenant was deleted: %d calls", len(got.Entries))
		}
	})
}

// TestCostOfArchivedCalls measures the bytes of an archived call that docs/run/sizing.md says.
func TestCostOfArchivedCalls(t *testing.T) {
	t.Parallel()
	const calls, most = 2000, 600
	server := redistest.Start(t)
	s := open(t, redisstore.Config{URL: server.URL()})
	options, err := redis.ParseURL(server.URL())
	check.Must(t, err)
	raw := redis.NewClient(options)
	t.Cleanup(func() { _ = raw.Close() })
	for at := range calls / 100 {
		var batch []recent.Call
		for i := range 100 {
			c := pastCall("acme", fmt.Sprintf("abcdefghij-%d", 100*at+i), time.Now())
			c.RequestID, c.User, c.Agent = "0190f1c2-7a54-7c39-8d5c-0a4b1a2f3c4d", "ann@example.com", "planner"
			c.Capability, c.Method, c.Backend, c.Key = "weather", "Invoke", "10.0.4.11:50051", "abcdefghijklmnop"
			c.Verdict, c.Level, c.Outcome, c.Trace = "allow", "fleet", "success", "4bf92f3577b34da6a3ce929d0e0e4736"
			batch = append(batch, c)
		}
		check.Must(t, s.Recent().Keep(t.Context(), batch, recent.Bounds{Calls: calls, Days: 1}))
	}
	if got := bytesOfKeys(t, raw) / calls; got > most || got < most/3 {
		t.Errorf("a call has %d bytes, and the page says up to %d", got, most)
	} else {
		t.Logf("%d bytes a call", got)
	}
}

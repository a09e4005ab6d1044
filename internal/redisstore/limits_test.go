package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
)

// asking sends one demand after another.
func asking(t *testing.T, l *redisstore.TenantLimits) func(of string, a ratelimit.Demand) ratelimit.Grant {
	seq := int64(0)
	return func(of string, a ratelimit.Demand) ratelimit.Grant {
		t.Helper()
		seq++
		a.Seq = seq
		got, err := l.Exchange(context.Background(), ratelimit.Owner{ID: of}, []ratelimit.Demand{a})
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
}

// noon is the offset from now to a noon, so that no test meets an unintended midnight.
func noon(y int, m time.Month, d int) time.Duration {
	return time.Until(time.Date(y, m, d, 12, 0, 0, 0, time.UTC))
}

func TestCallsPerSecondAreOfAllReplicas(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		a, b := asking(t, store.Limits("a")), asking(t, open().Limits("b"))
		rate := tenant.Bounds{CallsPerSecond: 1, Burst: 10}
		if got := a("acme", ratelimit.Demand{Bounds: rate, Want: 6}); got.Calls != 6 {
			t.Errorf("%+v", got)
		}
		got := b("acme", ratelimit.Demand{Bounds: rate, Want: 6})
		if got.Calls < 4 || got.Calls > 5 || got.Short != call.CallsPerSecond || got.Wait <= 0 || got.Wait > time.Second {
			t.Errorf("%+v", got)
		}
		if got := b("globex", ratelimit.Demand{Bounds: rate, Want: 6}); got.Calls != 6 {
			t.Errorf("another tenant: %+v", got)
		}
		if got := b("acme", ratelimit.Demand{Name: ratelimit.Name{Per: "user", Value: "ann"}, Bounds: rate,
			Want: 6}); got.Calls != 6 {
			t.Errorf("a user: %+v", got)
		}
		if got := a("acme", ratelimit.Demand{Bounds: rate, Returned: 5, Want: 5}); got.Calls != 5 {
			t.Errorf("what was given back: %+v", got)
		}
		later := store.Limits("a")
		redisstore.SetAhead(later, time.Hour)
		if got := asking(t, later)("acme", ratelimit.Demand{Bounds: rate, Want: 20}); got.Calls != 10 {
			t.Errorf("after an hour: %+v", got)
		}
	})
}

func TestBudgetsEndWithTheirPeriod(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		l := open().Limits("a")
		ask := asking(t, l)
		budget := tenant.Bounds{PerDay: 10, PerMonth: 15}
		redisstore.SetAhead(l, noon(2028, 2, 28))
		got := ask("acme", ratelimit.Demand{Bounds: budget, Want: 12})
		if got.Calls != 10 || got.Short != call.PerDay || got.Wait.Round(time.Hour) != 12*time.Hour ||
			got.DayEnds.Round(time.Hour) != 12*time.Hour || got.MonthEnds.Round(time.Hour) != 36*time.Hour {
			t.Errorf("a leap year's 28th of February: %+v", got)
		}
		if got = ask("acme", ratelimit.Demand{Bounds: budget, Want: 1}); got.Calls != 0 || got.Day.Calls != 10 ||
			got.Month.Calls != 10 {
			t.Errorf("the same day: %+v", got)
		}
		if again := ask("acme", ratelimit.Demand{Bounds: budget, Returned: 3, Want: 1, Day: got.Day,
			Month: got.Month}); again.Calls != 1 || again.Day.Calls != 8 {
			t.Errorf("what was given back: %+v", again)
		}
		redisstore.SetAhead(l, noon(2028, 2, 29))
		if got = ask("acme", ratelimit.Demand{Bounds: budget, Returned: 2, Want: 10, Day: got.Day,
			Month: got.Month}); got.Calls != 9 || got.Short != call.PerMonth || got.Wait.Round(time.Hour) != 12*time.Hour {
			t.Errorf("the 29th: %+v", got)
		}
		redisstore.SetAhead(l, noon(2028, 3, 1))
		if got = ask("acme", ratelimit.Demand{Bounds: budget, Want: 10}); got.Calls != 10 ||
			got.MonthEnds.Round(time.Hour) != (30*24+12)*time.Hour {
			t.Errorf("the 1st of March: %+v", got)
		}
		if got = ask("acme", ratelimit.Demand{Bounds: budget, Unleased: 5, Want: 1}); got.Calls != 0 || got.Day.Calls != 15 {
			t.Errorf("calls without a lease: %+v", got)
		}
		redisstore.SetAhead(l, noon(2028, 12, 31))
		if got = ask("acme", ratelimit.Demand{Bounds: budget, Want: 1}); got.Calls != 1 ||
			got.MonthEnds.Round(time.Hour) != 12*time.Hour {
			t.Errorf("the last day of a year: %+v", got)
		}
	})
}

// TestAnEmptyRedisIsTold: the replica's number of a budget is used.
func TestAnEmptyRedisIsTold(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		l := open().Limits("a")
		redisstore.SetAhead(l, noon(2027, 5, 5))
		ask := asking(t, l)
		known := ask("acme", ratelimit.Demand{Bounds: tenant.Bounds{PerDay: 10}, Want: 1}).Day
		known.Calls = 9
		if got := ask("globex", ratelimit.Demand{Bounds: tenant.Bounds{PerDay: 10}, Want: 5, Day: known}); got.Calls != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestPlacesOfTenantsAreShared(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		l := open().Limits("a")
		a, b := asking(t, l), asking(t, open().Limits("b"))
		five := tenant.Bounds{Concurrent: 5}
		if got := a("acme", ratelimit.Demand{Bounds: five, Need: 1, Spare: 2}); got.Permits != 3 || got.Sharing != 0 {
			t.Errorf("%+v", got)
		}
		if got := b("acme", ratelimit.Demand{Bounds: five, Need: 4}); got.Permits != 2 {
			t.Errorf("%+v", got)
		}
		if got := a("acme", ratelimit.Demand{Bounds: five, Used: 1, Retain: 1, Spare: 2}); got.Permits != 1 ||
			got.Sharing != 2 {
			t.Errorf("a replica with spare permits: %+v", got)
		}
		if got := b("acme", ratelimit.Demand{Bounds: five, Used: 2, Retain: 2, Need: 3}); got.Permits != 4 {
			t.Errorf("a replica that waits: %+v", got)
		}
		redisstore.SetAhead(l, time.Minute)
		if got := a("acme", ratelimit.Demand{Bounds: five, Used: 1, Retain: 1, Need: 4}); got.Permits != 5 {
			t.Errorf("when the other is silent: %+v", got)
		}
	})
}

// TestPermitsAreCountedOnce: a message that arrives again, or after a later one, changes nothing.
func TestPermitsAreCountedOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		l := open().Limits("a")
		five := tenant.Bounds{Concurrent: 5}
		for _, c := range []struct{ need, seq, want int64 }{{1, 7, 1}, {3, 7, -1}, {3, 6, -1}, {3, 8, 3}} {
			got, err := l.Exchange(t.Context(), ratelimit.Owner{ID: "acme"}, []ratelimit.Demand{{Bounds: five, Need: c.need,
				Seq: c.seq}})
			if err != nil || got[0].Permits != c.want {
				t.Errorf("%+v: %+v, %v", c, got, err)
			}
		}
		if got := asking(t, open().Limits("b"))("acme", ratelimit.Demand{Bounds: five, Need: 5}); got.Permits != 2 {
			t.Errorf("another replica gets %+v", got)
		}
	})
}

// TestPlacesThatTheDivisionLeaves: replicas that all wait use the whole limit, although it is no multiple of them.
func TestPlacesThatTheDivisionLeaves(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		five := tenant.Bounds{Concurrent: 5}
		a, b, c := asking(t, open().Limits("a")), asking(t, open().Limits("b")), asking(t, open().Limits("c"))
		for _, ask := range []func(string, ratelimit.Demand) ratelimit.Grant{a, b, c} { // all wait; one has them all
			ask("acme", ratelimit.Demand{Bounds: five, Need: 9})
		}
		got := []int64{
			a("acme", ratelimit.Demand{Bounds: five, Used: 1, Retain: 1, Need: 4}).Permits,
			b("acme", ratelimit.Demand{Bounds: five, Need: 4}).Permits,
			c("acme", ratelimit.Demand{Bounds: five, Need: 4}).Permits,
		}
		if !slices.Equal(got, []int64{2, 2, 1}) {
			t.Errorf("%v of 5 permits, want 2, 2 and 1", got)
		}
	})
}

func TestManyAsksAreOneCommand(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		l := store.Limits("a")
		var asks []ratelimit.Demand
		for i := range ratelimit.MaxDemands {
			asks = append(asks, ratelimit.Demand{Name: ratelimit.Name{Per: "user", Value: fmt.Sprintf("u:%d{}", i)},
				Bounds: tenant.Bounds{CallsPerSecond: 10, Burst: 10, PerDay: 5, Concurrent: 3}, Want: int64(i % 3), Need: 1,
				Seq: 1})
		}
		// Redis knows the script from now on
		if _, err := l.Exchange(context.Background(), ratelimit.Owner{ID: "acme"}, asks[:1]); err != nil {
			t.Fatal(err)
		}
		before := store.Stats().Commands[redisstore.Limits]
		asks[0].Seq = 2
		got, err := l.Exchange(context.Background(), ratelimit.Owner{ID: "acme"}, asks)
		if err != nil || store.Stats().Commands[redisstore.Limits] != before+1 {
			t.Fatalf("%v, %d commands", err, store.Stats().Commands[redisstore.Limits]-before)
		}
		for i := range got {
			if got[i].Calls != int64(i%3) || got[i].Permits != 1 {
				t.Errorf("%d: %+v", i, got[i])
			}
		}
	})
}

// TestInventedUsersTakeNoRoom: beyond a number of users all others share one budget.
func TestInventedUsersTakeNoRoom(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		l := open().Limits("a")
		redisstore.SetRoom(l, 3)
		redisstore.SetAhead(l, noon(2027, 5, 5))
		ask := asking(t, l)
		var got int64
		for i := range 20 {
			got += ask("acme", ratelimit.Demand{Name: ratelimit.Name{Per: "user", Value: fmt.Sprint(i)},
				Bounds: tenant.Bounds{PerDay: 2}, Want: 5}).Calls
		}
		if got != 3*2+2 {
			t.Errorf("%d calls of 20 users, want those of three and of one for all others", got)
		}
	})
}

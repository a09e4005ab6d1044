// Package storetest has the tests that every ratelimit.Store passes.
package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Store is a ratelimit.Store of one replica.
type Store interface {
	ratelimit.Store
	// SetAhead sets the offset of the store's clock in exchanges of this replica.
	SetAhead(d time.Duration)
}

// Suite returns the tests. Each Store is of another replica.
func Suite() contract.Suite[Store] {
	return contract.Suite[Store]{
		"calls per second are those of all replicas":   testRates,
		"budgets end with their period":                testPeriods,
		"a clock that is behind ends no budget":        testClockBehind,
		"an empty store learns the use from replicas":  testEmpty,
		"permits are shared":                           testPermits,
		"permits that are returned are free":           testReturned,
		"permits that the division leaves are granted": testDivision,
		"a message counts once":                        testOnce,
	}
}

// Asking sends one demand after another.
func Asking(t *testing.T, l ratelimit.Store) func(of string, a ratelimit.Demand) ratelimit.Grant {
	seq := int64(0)
	return func(of string, a ratelimit.Demand) ratelimit.Grant {
		t.Helper()
		seq++
		a.Seq = seq
		got, err := l.Exchange(context.Background(), ratelimit.Owner{ID: of}, []ratelimit.Demand{a})
		check.Must(t, err)
		return got[0]
	}
}

// Noon returns the offset from now to a noon, so that no test meets an unintended midnight.
func Noon(y int, m time.Month, d int) time.Duration {
	return time.Until(time.Date(y, m, d, 12, 0, 0, 0, time.UTC))
}

func testRates(t *testing.T, open func() Store) {
	a, b, later := Asking(t, open()), Asking(t, open()), open()
	rate := tenant.Bounds{CallsPerSecond: 1, Burst: 10}
	if got := a("acme", ratelimit.Demand{Bounds: rate, Want: 6}); got.Calls != 6 {
		t.Errorf("%+v", got)
	}
	got := b("acme", ratelimit.Demand{Bounds: rate, Want: 6})
	if got.Calls < 4 || got.Calls > 5 || got.Short != call.CallsPerSecond || got.Wait <= 0 ||
		got.Wait > time.Second {
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
	later.SetAhead(time.Hour)
	if got := Asking(t, later)("acme", ratelimit.Demand{Bounds: rate, Want: 20}); got.Calls != 10 {
		t.Errorf("after an hour: %+v", got)
	}
}

func testPeriods(t *testing.T, open func() Store) {
	l := open()
	ask := Asking(t, l)
	budget := tenant.Bounds{PerDay: 10, PerMonth: 15}
	l.SetAhead(Noon(2028, 2, 28))
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
	l.SetAhead(Noon(2028, 2, 29))
	if got = ask("acme", ratelimit.Demand{Bounds: budget, Returned: 2, Want: 10, Day: got.Day,
		Month: got.Month}); got.Calls != 9 || got.Short != call.PerMonth ||
		got.Wait.Round(time.Hour) != 12*time.Hour {
		t.Errorf("the 29th: %+v", got)
	}
	l.SetAhead(Noon(2028, 3, 1))
	if got = ask("acme", ratelimit.Demand{Bounds: budget, Want: 10}); got.Calls != 10 ||
		got.MonthEnds.Round(time.Hour) != (30*24+12)*time.Hour {
		t.Errorf("the 1st of March: %+v", got)
	}
	if got = ask("acme", ratelimit.Demand{Bounds: budget, Unleased: 5, Want: 1}); got.Calls != 0 ||
		got.Day.Calls != 15 {
		t.Errorf("calls without a lease: %+v", got)
	}
	l.SetAhead(Noon(2028, 12, 31))
	if got = ask("acme", ratelimit.Demand{Bounds: budget, Want: 1}); got.Calls != 1 ||
		got.MonthEnds.Round(time.Hour) != 12*time.Hour {
		t.Errorf("the last day of a year: %+v", got)
	}
}

// testClockBehind: a promoted Redis whose clock is still before midnight counts in the new day and month.
func testClockBehind(t *testing.T, open func() Store) {
	l := open()
	ask := Asking(t, l)
	budget := tenant.Bounds{PerDay: 10, PerMonth: 10}
	l.SetAhead(Noon(2027, 5, 1))
	first := ask("acme", ratelimit.Demand{Bounds: budget, Want: 7})
	l.SetAhead(Noon(2027, 4, 30))
	if got := ask("acme", ratelimit.Demand{Bounds: budget, Want: 1}); got.Calls != 1 || got.Day.Calls != 8 {
		t.Errorf("of a replica that knows of no calls: %+v", got)
	}
	behind := ask("acme", ratelimit.Demand{Bounds: budget, Returned: 2, Want: 9, Day: first.Day,
		Month: first.Month})
	day, month := first.Day, first.Month
	day.Calls, month.Calls = 10, 10
	if behind.Calls != 4 || behind.Short == 0 || behind.Day != day || behind.Month != month {
		t.Errorf("with a clock that is behind: %+v, before: %+v", behind, first)
	}
	l.SetAhead(Noon(2027, 5, 1))
	if got := ask("acme", ratelimit.Demand{Bounds: budget, Want: 1}); got.Calls != 0 {
		t.Errorf("when the clock has caught up: %+v", got)
	}
	l.SetAhead(Noon(2027, 6, 1))
	if got := ask("acme", ratelimit.Demand{Bounds: budget, Want: 20}); got.Calls != 10 {
		t.Errorf("the next day and month: %+v", got)
	}
}

// testEmpty: the replica's number of a budget is used.
func testEmpty(t *testing.T, open func() Store) {
	l := open()
	l.SetAhead(Noon(2027, 5, 5))
	ask := Asking(t, l)
	known := ask("acme", ratelimit.Demand{Bounds: tenant.Bounds{PerDay: 10}, Want: 1}).Day
	known.Calls = 9
	if got := ask("globex", ratelimit.Demand{Bounds: tenant.Bounds{PerDay: 10}, Want: 5,
		Day: known}); got.Calls != 1 {
		t.Errorf("%+v", got)
	}
	// A replica that gets nothing still notifies the others.
	known.Calls = 60
	second := open()
	second.SetAhead(Noon(2027, 5, 5))
	other := Asking(t, second)
	for name, b := range map[string]tenant.Bounds{"quota": {PerDay: 60}, "month": {PerMonth: 60},
		"rate": {CallsPerSecond: 1, Burst: 60}} {
		month := ask("any", ratelimit.Demand{Bounds: tenant.Bounds{PerMonth: 10}, Want: 1}).Month
		month.Calls = 60
		full := ratelimit.Demand{Bounds: b, Want: 1, Day: known, Month: month, Bucket: ratelimit.Bucket{Spills: 1}}
		if got := ask(name, full); got.Calls != 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if got := other(name, ratelimit.Demand{Bounds: b, Want: 50}); got.Calls > 40 {
			t.Errorf("%s, a replica that knows of no calls: %+v", name, got)
		}
	}
}

func testPermits(t *testing.T, open func() Store) {
	l := open()
	a, b := Asking(t, l), Asking(t, open())
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
	l.SetAhead(time.Minute)
	if got := a("acme", ratelimit.Demand{Bounds: five, Used: 1, Retain: 1, Need: 4}); got.Permits != 5 {
		t.Errorf("when the other is silent: %+v", got)
	}
}

// testDivision: replicas that all wait use the whole limit, although it is no multiple of them.
func testDivision(t *testing.T, open func() Store) {
	five := tenant.Bounds{Concurrent: 5}
	a, b, c := Asking(t, open()), Asking(t, open()), Asking(t, open())
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
}

// testReturned: unused permits that a replica would retain are spare ones, and a replica that returns all of them and
// wants none no longer shares the limit.
func testReturned(t *testing.T, open func() Store) {
	five := tenant.Bounds{Concurrent: 5}
	a, b, c := Asking(t, open()), Asking(t, open()), Asking(t, open())
	if got := a("acme", ratelimit.Demand{Bounds: five, Retain: 3}); got.Permits != 3 {
		t.Errorf("%+v", got)
	}
	a("acme", ratelimit.Demand{Bounds: five})
	if got := b("acme", ratelimit.Demand{Bounds: five, Need: 5}); got.Permits != 5 || got.Others != 0 {
		t.Errorf("%+v", got)
	}
	c("acme", ratelimit.Demand{Bounds: five, Need: 1}) // waits
	if got := b("acme", ratelimit.Demand{Bounds: five, Used: 1, Retain: 5, Need: 1}); got.Sharing != 2 {
		t.Errorf("%d replicas share the limit, want b and c: %+v", got.Sharing, got)
	}
}

// testOnce: a message that arrives again, or after a later one, is refused, and counts nothing.
func testOnce(t *testing.T, open func() Store) {
	l, acme := open(), ratelimit.Owner{ID: "acme"}
	l.SetAhead(Noon(2027, 5, 5))
	ask := ratelimit.Demand{Bounds: tenant.Bounds{CallsPerSecond: 1, Burst: 1000, PerDay: 1000, PerMonth: 1000,
		Concurrent: 5}}
	for _, c := range []struct {
		seq, want, returned, unleased, need int64
		refused                             bool
		used                                int64 // of the budgets, afterwards
		permits                             int64
	}{
		{seq: 7, want: 400, unleased: 20, need: 1, used: 420, permits: 1},
		{seq: 7, want: 400, unleased: 20, need: 1, refused: true},
		{seq: 6, want: 400, unleased: 20, need: 3, refused: true},
		{seq: 8, returned: 200, need: 1, used: 220, permits: 1},
		{seq: 8, returned: 200, need: 3, refused: true},
		{seq: 7, returned: 200, need: 3, refused: true},
		{seq: 9, want: 1, need: 2, used: 221, permits: 2},
	} {
		ask.Seq, ask.Want, ask.Returned, ask.Unleased, ask.Need = c.seq, c.want, c.returned, c.unleased, c.need
		grants, err := l.Exchange(t.Context(), acme, []ratelimit.Demand{ask})
		if c.refused {
			if err == nil {
				t.Errorf("%+v: %+v, want an error", c, grants)
			}
			continue
		}
		check.Must(t, err)
		if got := grants[0]; got.Calls != c.want || got.Permits != c.permits || got.Day.Calls != c.used ||
			got.Month.Calls != c.used {
			t.Errorf("%+v: %+v", c, got)
		}
		ask.Day, ask.Month = grants[0].Day, grants[0].Month
	}
	others := tenant.Bounds{CallsPerSecond: 1, Burst: 1000, Concurrent: 5}
	got := Asking(t, open())("acme", ratelimit.Demand{Bounds: others, Want: 1000, Need: 5})
	if used := 1000 - got.Calls; used > 221 || used < 121 || got.Permits != 3 { // a call a second comes back
		t.Errorf("another replica finds %d of 221 calls used, and gets %d permits, want 3", used, got.Permits)
	}
}

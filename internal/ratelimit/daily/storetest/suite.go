package storetest

import (
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/ratelimit/daily"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Suite returns the tests that every Store passes.
func Suite() contract.Suite[daily.Store] {
	return contract.Suite[daily.Store]{
		"a day keeps its greatest use":                          testGreatest,
		"a quota is near its limit once in a period":            testOnce,
		"what was noticed is not noticed again":                 testNoticed,
		"the next tenant of an id has no use":                   testOwner,
		"a record has a bound":                                  testBound,
		"tenants near a limit are listed until its period ends": testTenants,
	}
}

// acme is the tenant of the tests.
var acme = ratelimit.Owner{ID: "acme", UID: "u1"}

func today() int64 { return time.Now().Unix() / 86400 }

// perDay returns the use of a daily quota of 100 calls.
func perDay(day, used int64) daily.Use {
	return daily.Use{Limit: call.PerDay, Per: "user", Capability: "w:{}", Tool: "get forecast", Day: day, Period: day,
		Used: used, Most: 100}
}

func raise(t *testing.T, s daily.Store, of ratelimit.Owner, uses ...daily.Use) []int {
	t.Helper()
	first, err := s.Raise(t.Context(), of, uses)
	check.Must(t, err)
	return first
}

func testGreatest(t *testing.T, open func() daily.Store) {
	a, b, now := open(), open(), today()
	concurrent := daily.Use{Limit: call.Concurrent, Day: now, Used: 3, Most: 5}
	raise(t, a, acme, perDay(now-1, 7), perDay(now, 40), concurrent)
	raise(t, b, acme, perDay(now, 30))
	lowered := concurrent
	lowered.Used, lowered.Most = 2, 4
	raise(t, b, acme, lowered)
	lowered.Used = 3
	got, err := a.Uses(t.Context(), acme, now-1, now)
	check.Must(t, err)
	for _, want := range []daily.Use{perDay(now-1, 7), perDay(now, 40), lowered} {
		want.Period = 0
		if !slices.Contains(got, want) {
			t.Errorf("%+v is not in %+v", want, got)
		}
	}
	if len(got) != 3 || got[0].Day != now-1 {
		t.Errorf("%+v", got)
	}
	if got, err = b.Uses(t.Context(), acme, now-9, now-2); len(got) > 0 || err != nil {
		t.Errorf("of earlier days: %+v, %v", got, err)
	}
}

func testOnce(t *testing.T, open func() daily.Store) {
	a, b, now := open(), open(), today()
	raised := perDay(now, 95)
	raised.Most = 110
	other := perDay(now, 99)
	other.Tool = "other"
	for i, step := range []struct {
		of    daily.Store
		uses  []daily.Use
		first []int
	}{
		{a, []daily.Use{perDay(now, 79)}, nil},
		{a, []daily.Use{{Limit: call.Concurrent, Day: now, Used: 5, Most: 5}, perDay(now, 80)}, []int{1}},
		{b, []daily.Use{perDay(now, 90)}, nil},
		{b, []daily.Use{perDay(now, 85), other}, []int{1}},
		{b, []daily.Use{raised}, []int{0}},
		{a, []daily.Use{perDay(now+1, 81)}, []int{0}},
	} {
		if got := raise(t, step.of, acme, step.uses...); !slices.Equal(got, step.first) {
			t.Errorf("step %d: %v, not %v", i, got, step.first)
		}
	}
	got, err := a.NearUses(t.Context(), acme)
	check.Must(t, err)
	latest := perDay(now+1, 81)
	latest.Day, other.Day = 0, 0
	slices.SortFunc(got, func(a, b daily.Use) int { return int(a.Used - b.Used) })
	if want := []daily.Use{latest, other}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// testNoticed: replicas with the old and the new maximum of a limit notice each once, and a late publication of
// yesterday changes nothing.
func testNoticed(t *testing.T, open func() daily.Store) {
	a, b, now := open(), open(), today()
	raised := perDay(now, 195)
	raised.Most = 200
	raise(t, a, acme, perDay(now, 96))
	if got := raise(t, b, acme, raised); !slices.Equal(got, []int{0}) {
		t.Errorf("with the new maximum: %v", got)
	}
	for range 3 {
		if got := slices.Concat(raise(t, a, acme, perDay(now, 97), perDay(now-1, 100)), raise(t, b, acme, raised),
			raise(t, a, acme, perDay(now-1, 100))); len(got) > 0 {
			t.Errorf("again: %v", got)
		}
	}
	got, err := a.NearUses(t.Context(), acme)
	raised.Day = 0
	if !reflect.DeepEqual(got, []daily.Use{raised}) || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func testOwner(t *testing.T, open func() daily.Store) {
	s, now, next := open(), today(), ratelimit.Owner{ID: acme.ID, UID: "u2"}
	raise(t, s, acme, perDay(now, 90))
	if got, err := s.Uses(t.Context(), next, now, now); len(got) > 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.NearUses(t.Context(), next); len(got) > 0 || err != nil {
		t.Errorf("near: %+v, %v", got, err)
	}
	if first := raise(t, s, next, perDay(now, 90)); len(first) != 1 {
		t.Errorf("the next tenant is not near its limit: %v", first)
	}
}

func testBound(t *testing.T, open func() daily.Store) {
	s, now := open(), today()
	for i := range daily.MaxLimits + 20 {
		u := perDay(now, 90)
		u.Tool = strconv.Itoa(i)
		raise(t, s, acme, u)
	}
	got, err := s.Uses(t.Context(), acme, now, now)
	if len(got) != daily.MaxLimits || err != nil {
		t.Errorf("%d uses, %v", len(got), err)
	}
	got, err = s.NearUses(t.Context(), acme)
	if len(got) == 0 || len(got) > daily.MaxLimits || err != nil {
		t.Errorf("%d near uses, %v", len(got), err)
	}
}

func testTenants(t *testing.T, open func() daily.Store) {
	s, now := open(), today()
	for _, id := range []string{"acme", "globex", "hooli"} {
		raise(t, s, ratelimit.Owner{ID: id}, perDay(now, 90))
	}
	raise(t, s, ratelimit.Owner{ID: "past"}, perDay(now-2, 90))
	raise(t, s, ratelimit.Owner{ID: "calm"}, perDay(now, 10))
	month := daily.Use{Limit: call.PerMonth, Day: now, Period: daily.Month(now), Used: 9, Most: 10}
	raise(t, s, ratelimit.Owner{ID: "month"}, month)
	ids, all, err := s.NearTenants(t.Context(), nil, 0, 10)
	check.Must(t, err)
	slices.Sort(ids)
	if want := []string{"acme", "globex", "hooli", "month"}; !slices.Equal(ids, want) || all != 4 {
		t.Errorf("%v of %d", ids, all)
	}
	if ids, all, err = s.NearTenants(t.Context(), nil, 0, 2); len(ids) != 2 || all != 4 || err != nil {
		t.Errorf("two: %v of %d, %v", ids, all, err)
	}
	ids, all, err = s.NearTenants(t.Context(), []string{"calm", "globex", "nobody", "past"}, 0, 10)
	if !slices.Equal(ids, []string{"globex"}) || all != 1 || err != nil {
		t.Errorf("named: %v of %d, %v", ids, all, err)
	}
	if ids, all, err = s.NearTenants(t.Context(), []string{}, 0, 10); len(ids) > 0 || all != 0 || err != nil {
		t.Errorf("of none: %v of %d, %v", ids, all, err)
	}
	var paged []string
	for skip := range 5 {
		ids, _, err = s.NearTenants(t.Context(), nil, skip, 1)
		check.Must(t, err)
		paged = append(paged, ids...)
	}
	if slices.Sort(paged); !slices.Equal(paged, []string{"acme", "globex", "hooli", "month"}) {
		t.Errorf("page by page: %v", paged)
	}
	check.Must(t, s.ForgetNear(t.Context(), nil))
	check.Must(t, s.ForgetNear(t.Context(), []string{"acme", "globex", "nobody"}))
	ids, all, err = s.NearTenants(t.Context(), []string{"acme", "hooli", "month"}, 1, 10)
	if !slices.Equal(ids, []string{"month"}) || all != 2 || err != nil {
		t.Errorf("after two were removed: %v of %d, %v", ids, all, err)
	}
	raise(t, s, ratelimit.Owner{ID: "acme"}, perDay(now, 91))
	if ids, _, err = s.NearTenants(t.Context(), []string{"acme"}, 0, 10); len(ids) != 1 || err != nil {
		t.Errorf("near again: %v, %v", ids, err)
	}
}

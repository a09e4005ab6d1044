package daily_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/ratelimit/daily"
	"github.com/capgate/capgate/internal/ratelimit/daily/storetest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// noon is the time of the tests, on day 20,000, the fourth of October 2024.
var noon = time.Date(2024, 10, 4, 12, 0, 0, 0, time.UTC)

const today = 20000

// limits is a daily.Limits of one tenant.
type limits struct {
	peaks  []ratelimit.Peak
	config []ratelimit.LimitUsage
}

func (l *limits) Peaks(visit func(ratelimit.Owner, []ratelimit.Peak)) {
	visit(ratelimit.Owner{ID: "acme", UID: "u1"}, l.peaks)
}

func (l *limits) LimitsOf(*tenant.Settings) (ratelimit.Owner, []ratelimit.LimitUsage) {
	return ratelimit.Owner{ID: "acme", UID: "u1"}, l.config
}

// perDay is the use of a quota of 100 calls a day.
func perDay(day, used int64) []ratelimit.Peak {
	return []ratelimit.Peak{{Limit: call.PerDay, Most: 100, Used: used, Day: day}}
}

// counted counts the uses that a store gets.
type counted struct {
	*storetest.Memory
	uses int
}

func (c *counted) Raise(ctx context.Context, of ratelimit.Owner, uses []daily.Use) ([]int, error) {
	c.uses += len(uses)
	return c.Memory.Raise(ctx, of, uses)
}

// open returns a Log with its limits, and the notices that it gives.
func open(store daily.Store) (*daily.Log, *limits, *[]string) {
	of := &limits{config: []ratelimit.LimitUsage{{Limit: call.PerDay, Most: 100}}}
	var notices []string
	return daily.New(daily.Config{Limits: of, Store: store, Now: func() time.Time { return noon },
		Notice: func(tenant string, u *daily.Use) {
			notices = append(notices, fmt.Sprintf("%s %v %d/%d", tenant, u.Limit, u.Used, u.Most))
		}}), of, &notices
}

// TestNoticeIsGivenOnce: of two replicas one notices that 80% of a quota is used, once.
func TestNoticeIsGivenOnce(t *testing.T) {
	t.Parallel()
	store := &storetest.Memory{}
	a, ofA, noticesA := open(store)
	b, ofB, noticesB := open(store)
	for _, used := range []int64{10, 79, 80, 81, 100} {
		ofA.peaks, ofB.peaks = perDay(today, used), perDay(today, used)
		check.Must(t, a.Publish(t.Context()))
		check.Must(t, b.Publish(t.Context()))
	}
	if all := slices.Concat(*noticesA, *noticesB); !slices.Equal(all, []string{"acme per_day 80/100"}) {
		t.Errorf("%q", all)
	}
	near, err := b.Near(t.Context(), nil)
	if len(near) != 1 || near[0].Used != 100 || err != nil {
		t.Errorf("near: %+v, %v", near, err)
	}
	ofB.config[0].Most = 200 // the limit was raised
	if near, err = b.Near(t.Context(), nil); len(near) > 0 || err != nil {
		t.Errorf("near a limit that was raised: %+v, %v", near, err)
	}
}

// tenants is a daily.Limits of tenants with one quota of 100 calls a day, or 200 for tenants whose name begins with
// "raised".
type tenants struct{ limits }

func (tenants) LimitsOf(s *tenant.Settings) (ratelimit.Owner, []ratelimit.LimitUsage) {
	most := int64(100)
	if strings.HasPrefix(s.ID, "raised") {
		most = 200
	}
	return ratelimit.Owner{ID: s.ID}, []ratelimit.LimitUsage{{Limit: call.PerDay, Most: most}}
}

// TestStaleTenantsHideNoOther: tenants that were deleted or whose limits were raised do not hide a tenant that is near
// a limit. The deleted ones are removed.
func TestStaleTenantsHideNoOther(t *testing.T) {
	t.Parallel()
	store, now := &storetest.Memory{}, time.Now()
	day := now.Unix() / 86400
	for i := range 8 {
		for _, name := range []string{"gone", "near", "raised"} {
			_, err := store.Raise(t.Context(), ratelimit.Owner{ID: fmt.Sprint(name, i)},
				[]daily.Use{{Limit: call.PerDay, Day: day, Period: day, Used: 90, Most: 100}})
			check.Must(t, err)
		}
	}
	l := daily.New(daily.Config{Limits: &tenants{}, Store: store, Now: func() time.Time { return now }})
	settings := func(_ context.Context, id string) (*tenant.Settings, bool, error) {
		return &tenant.Settings{ID: id}, !strings.HasPrefix(id, "gone"), nil
	}
	for _, most := range []int{4, 10} {
		found, all, err := l.NearTenants(t.Context(), nil, most, settings)
		check.Must(t, err)
		for i := range found {
			if !strings.HasPrefix(found[i].Tenant, "near") || found[i].Used != 90 {
				t.Errorf("%+v", found[i])
			}
		}
		if len(found) != min(most, 8) || all < 8 {
			t.Errorf("%d of %d", len(found), all)
		}
	}
	if ids, _, err := store.NearTenants(t.Context(), nil, 0, 99); len(ids) != 16 || err != nil {
		t.Errorf("%d tenants are in the store, %v; want 16", len(ids), err)
	}
}

// TestOnlyGrownUsesAreSent: an idle tenant costs the store nothing.
func TestOnlyGrownUsesAreSent(t *testing.T) {
	t.Parallel()
	store := &counted{Memory: &storetest.Memory{}}
	l, of, _ := open(store)
	for _, step := range []struct {
		peaks []ratelimit.Peak
		sent  int
	}{{perDay(today, 5), 1}, {perDay(today, 5), 1}, {perDay(today, 4), 1}, {perDay(today, 6), 2}, {nil, 2},
		{perDay(today+1, 1), 3}} {
		of.peaks = step.peaks
		check.Must(t, l.Publish(t.Context()))
		if store.uses != step.sent {
			t.Fatalf("%+v: %d uses were sent", step.peaks, store.uses)
		}
	}
	days, err := l.Days(t.Context(), nil, 7)
	if len(days) != 1 || days[0].Used != 6 || daily.Date(days[0].Day).Format(time.DateOnly) != "2024-10-04" ||
		err != nil {
		t.Errorf("%+v, %v", days, err)
	}
}

// TestAwayStoreLosesNoPeak: a peak waits for a store that does not respond.
func TestAwayStoreLosesNoPeak(t *testing.T) {
	t.Parallel()
	away := true
	store := &storetest.Memory{Fails: func() error {
		if away {
			return errors.New("away")
		}
		return nil
	}}
	l, of, notices := open(store)
	for _, used := range []int64{90, 7} {
		of.peaks = []ratelimit.Peak{{Limit: call.Concurrent, Most: 100, Used: used, Day: today}}
		if l.Publish(t.Context()) == nil {
			t.Fatal("no error")
		}
	}
	away, of.peaks = false, nil
	check.Must(t, l.Publish(t.Context()))
	days, err := l.Days(t.Context(), nil, 99)
	if len(days) != 1 || days[0].Used != 90 || len(*notices) > 0 || err != nil {
		t.Errorf("%+v, %v, %q", days, err, *notices)
	}
}

// TestMonths: the number of a month and its end are those of the limits.
func TestMonths(t *testing.T) {
	t.Parallel()
	if got := daily.Month(today); got != 2024*12+10 {
		t.Errorf("month %d", got)
	}
	month := daily.Use{Limit: call.PerMonth, Period: 2024*12 + 12}
	of := daily.Use{Limit: call.PerDay, Period: today}
	if month.Date() != "2024-12" || of.Date() != "2024-10-04" {
		t.Errorf("%s, %s", month.Date(), of.Date())
	}
	december := daily.Use{Limit: call.PerMonth, Day: today + 58 + 10}
	if got := december.Ends(); !got.Equal(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("it ends at %v", got)
	}
}

package redisstore_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// TestNoTenantDelaysTheNoticesOfAnother: a tenant's event is leased next, although another tenant has a
// thousand older ones.
func TestNoTenantDelaysTheNoticesOfAnother(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		w := open().Notices("ops")
		put := func(tenant string, n int, age time.Duration) {
			var events []webhook.Event
			for i := range n {
				events = append(events, webhook.Event{ID: tenant + strconv.Itoa(i), Tenant: tenant, Approval: "a",
					Kind: approvals.EventCreated, At: time.Now().Add(-age)})
			}
			if _, err := w.Put(t.Context(), tenant, "", "1-0", events, 5000); err != nil {
				t.Fatal(err)
			}
		}
		put("acme", 1000, time.Hour)
		if taken, _, _, err := w.Lease(t.Context(), 4, time.Minute); err != nil || len(taken) != 4 {
			t.Fatal(len(taken), err)
		}
		put("globex", 2, time.Minute)
		got := map[string]int{}
		for range 2 {
			taken, _, _, err := w.Lease(t.Context(), 1, time.Minute)
			if err != nil || len(taken) != 1 {
				t.Fatal(len(taken), err)
			}
			got[taken[0].Tenant]++
		}
		if got["globex"] != 2 {
			t.Errorf("the next two leases are %v", got)
		}
		if taken, _, _, err := w.Lease(t.Context(), 10, time.Minute); err != nil || len(taken) != 10 ||
			taken[0].Tenant != "acme" {
			t.Errorf("%d leases of acme's rest, %v", len(taken), err)
		}
	})
}

// TestNoTenantFillsTheOutbox: a tenant whose events are not delivered leaves room for those of another.
func TestNoTenantFillsTheOutbox(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		w, cursor := open().Notices("ops"), map[string]string{}
		put := func(tenant string, n int) (dropped int) {
			var events []webhook.Event
			for i := range n {
				events = append(events, webhook.Event{ID: tenant + cursor[tenant] + "." + strconv.Itoa(i),
					Tenant: tenant, Approval: "a", Kind: approvals.EventCreated, At: time.Now()})
			}
			next := cursor[tenant] + "1"
			dropped, err := w.Put(t.Context(), tenant, cursor[tenant], next, events, 1000)
			check.Must(t, err)
			cursor[tenant] = next
			return dropped
		}
		dropped := 0
		for range 15 {
			dropped += put("acme", 100)
		}
		if dropped != 1500-800 {
			t.Errorf("%d of acme's events are dropped, want 700", dropped)
		}
		if dropped = put("globex", 150); dropped != 0 {
			t.Errorf("%d of another tenant's events are dropped", dropped)
		}
		if dropped = put("acme", 10); dropped != 10 {
			t.Errorf("%d more of acme's events are dropped, want 10", dropped)
		}
	})
}

// TestARetriedLetterDoesNotVanish: a dead letter whose approval has ended is a dead letter again after a retry,
// with the reason.
func TestARetriedLetterDoesNotVanish(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := newReceiver(t, always(http.StatusBadGateway))
		s := open()
		d := tell(t, s, r.URL, webhook.Config{Attempts: 1}, webhook.Options{})
		k := service(t, s, approvals.Options{})
		a := ask(t, k, request(`{}`))
		d.waitStats(t, func(s webhook.Stats) bool { return s.Dead == 1 })
		check.Must(t, k.Withdraw(t.Context(), a.Tenant, a.ID))
		letters, err := s.Notices("ops").Dead(t.Context(), 0, 10)
		if err != nil || len(letters) != 1 {
			t.Fatal(letters, err)
		}
		if ok, err := s.Notices("ops").Retry(t.Context(), letters[0].ID); !ok || err != nil {
			t.Fatal(ok, err)
		}
		check.Until(t, "the letter to be dead again", func() (bool, string) {
			letters, err = s.Notices("ops").Dead(t.Context(), 0, 10)
			return len(letters) == 1 && letters[0].Approval == a.ID, fmt.Sprint(letters, err)
		})
		if letters[0].Reason != "the approval can no longer be answered" {
			t.Errorf("it died of %q", letters[0].Reason)
		}
		d.stop()
	})
}

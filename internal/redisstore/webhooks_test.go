package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// put creates n approvals, and puts their events into the outbox.
func put(t *testing.T, s *redisstore.Store, n, room int) (events []webhook.Event, dropped int) {
	t.Helper()
	w, k := s.Notices("ops"), service(t, s, approvals.Options{})
	tenant := request("").Tenant
	for i := range n {
		ask(t, k, request(fmt.Sprintf(`{"n":%d}`, i)))
	}
	cursors, err := w.Cursors(t.Context(), []string{tenant})
	check.Must(t, err)
	events, next, err := w.Read(t.Context(), tenant, cursors[tenant], 1000)
	if err != nil || len(events) != n {
		t.Fatalf("read %d, %v", len(events), err)
	}
	if dropped, err = w.Put(t.Context(), tenant, cursors[tenant], next, events, room); err != nil {
		t.Fatal(err)
	}
	return events, dropped
}

// claim leases the entries that are due.
func claim(
	t *testing.T, w *redisstore.Webhooks, most int, lease time.Duration,
) ([]webhook.Entry, time.Duration, webhook.Sizes) {
	t.Helper()
	taken, again, sizes, err := w.Lease(t.Context(), most, lease)
	check.Must(t, err)
	return taken, again, sizes
}

func TestEventsAreGatheredOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := open(), open()
		w, k := one.Notices("ops"), service(t, one, approvals.Options{})
		r := request(`{}`)
		a := ask(t, k, r)
		events, next, err := w.Read(t.Context(), r.Tenant, "", 10)
		if err != nil || len(events) != 1 {
			t.Fatalf("read %+v, %v", events, err)
		}
		if e := events[0]; e.Tenant != r.Tenant || e.Approval != a.ID || e.Kind != approvals.EventCreated ||
			e.At.Sub(a.Created).Abs() > time.Second {
			t.Errorf("read %+v of %+v", e, a)
		}
		if again, _, err := two.Notices("ops").Read(t.Context(), r.Tenant, "", 10); err != nil ||
			!slices.Equal(again, events) {
			t.Errorf("another reads %+v, %v", again, err)
		}
		for i, want := range []error{nil, webhook.ErrMoved} {
			if dropped, err := w.Put(t.Context(), r.Tenant, "", next, events, 10); dropped != 0 ||
				!errors.Is(err, want) {
				t.Errorf("put %d: %d, %v", i, dropped, err)
			}
		}
		cursors, err := two.Notices("ops").Cursors(t.Context(), nil)
		if err != nil || len(cursors) != 1 || cursors[r.Tenant] != next {
			t.Errorf("cursors %q, %v", cursors, err)
		}
		if events, again, err := w.Read(t.Context(), r.Tenant, next, 10); err != nil || len(events) != 0 ||
			again != next {
			t.Errorf("read %+v, %q, %v", events, again, err)
		}
		if events, next, err := w.Read(t.Context(), "nobody", "", 10); err != nil || len(events) != 0 || next == "" {
			t.Errorf("read %+v, %q, %v", events, next, err)
		}
	})
}

func TestEntriesAreOneReplicasAtATime(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := open().Notices("ops"), open()
		events, _ := put(t, two, 3, 10)
		first, again, sizes := claim(t, one, 2, time.Hour)
		if len(first) != 2 || !slices.Contains(events, first[0].Event) || first[0].Attempts != 1 || again == 0 ||
			sizes != (webhook.Sizes{Queued: 3}) {
			t.Fatalf("claimed %+v, %v, %+v", first, again, sizes)
		}
		rest, again, _ := claim(t, two.Notices("ops"), 2, time.Hour)
		if len(rest) != 1 || rest[0].ID == first[0].ID || rest[0].ID == first[1].ID || again < time.Minute {
			t.Fatalf("claimed %+v, %v", rest, again)
		}
		stranger := first[0]
		stranger.Lease = rest[0].Lease
		check.Must(t, one.Reschedule(t.Context(), &stranger, 0))
		if _, err := one.DeadLetter(t.Context(), &stranger, "", 9); !errors.Is(err, webhook.ErrMoved) {
			t.Errorf("buried by another: %v", err)
		}
		if got, _, _ := claim(t, one, 9, time.Hour); len(got) != 0 {
			t.Errorf("another put back %+v", got)
		}
		check.Must(t, one.Reschedule(t.Context(), &first[0], 0))
		check.Must(t, one.Done(t.Context(), first[1].ID))
		got, _, sizes := claim(t, two.Notices("ops"), 9, time.Hour)
		if len(got) != 1 || got[0].Event != first[0].Event || got[0].Attempts != 2 || sizes.Queued != 2 {
			t.Errorf("after both: %+v, %+v", got, sizes)
		}
	})
}

// TestAMalformedLetterIsSkipped: it has its place in the list, so that no page ends at it.
func TestAMalformedLetterIsSkipped(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		w := s.Notices("ops")
		put(t, s, 3, 10)
		entries, _, _ := claim(t, w, 9, time.Hour)
		for i := range entries {
			_, err := w.DeadLetter(t.Context(), &entries[i], "why", 9)
			check.Must(t, err)
		}
		letters, err := w.Dead(t.Context(), 0, 10)
		check.Must(t, err)
		check.Must(t, redisstore.SetLetter(t.Context(), w, letters[1].ID, "not a letter"))
		got, err := w.Dead(t.Context(), 0, 3)
		check.Must(t, err)
		if len(got) != 3 || !got[1].Malformed || got[1].ID != letters[1].ID || got[0] != letters[0] ||
			got[2] != letters[2] {
			t.Errorf("dead: %+v", got)
		}
	})
}

func TestTheOutboxIsBounded(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		if _, dropped := put(t, s, 5, 3); dropped != 2 {
			t.Errorf("dropped %d", dropped)
		}
		if got, _, sizes := claim(t, s.Notices("ops"), 9, time.Hour); len(got) != 3 || sizes.Queued != 3 {
			t.Errorf("claimed %d, %+v", len(got), sizes)
		}
	})
}

func TestDeadLettersAreBounded(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		w := s.Notices("ops")
		put(t, s, 5, 10)
		entries, _, _ := claim(t, w, 9, time.Hour)
		for i, want := range []int{0, 0, 0, 1, 1} {
			if dropped, err := w.DeadLetter(t.Context(), &entries[i], "why: {not}", 3); err != nil || dropped != want {
				t.Errorf("buried %d: %d, %v", i, dropped, err)
			}
		}
		letters, err := w.Dead(t.Context(), 0, 10)
		if err != nil || len(letters) != 3 {
			t.Fatalf("dead: %+v, %v", letters, err)
		}
		if l := letters[0]; l.Attempts != 1 || l.Reason != "why: {not}" || l.Died.Before(l.At) ||
			l.Tenant != request("").Tenant {
			t.Errorf("dead: %+v", l)
		}
		if page, err := w.Dead(t.Context(), 2, 10); err != nil || len(page) != 1 || page[0] != letters[2] {
			t.Errorf("the last: %+v, %v", page, err)
		}
		for _, want := range []bool{true, false} {
			if ok, err := w.Retry(t.Context(), letters[1].ID); err != nil || ok != want {
				t.Errorf("retried: %v, %v", ok, err)
			}
		}
		got, _, sizes := claim(t, w, 9, time.Hour)
		if len(got) != 1 || got[0].Event != letters[1].Event || got[0].Attempts != 1 ||
			sizes != (webhook.Sizes{Queued: 1, Dead: 2}) {
			t.Errorf("after a retry: %+v, %+v", got, sizes)
		}
	})
}

func TestMalformedEntries(t *testing.T) {
	s := open(t, redisstore.Config{})
	t.Parallel()
	events, _ := put(t, s, 3, 10)
	probe := s.Probe()
	entries := strings.Replace(probe.KeyOf("webhooks", "entries"), "}", ":ops}", 1)
	err := probe.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
		return errors.Join(r.HSet(ctx, entries, events[0].ID, "a:b").Err(),
			r.HDel(ctx, entries, events[1].ID).Err())
	})
	check.Must(t, err)
	got, _, _ := claim(t, s.Notices("ops"), 9, time.Hour)
	if len(got) != 1 || got[0].Event != events[2] || s.Stats().Malformed != 2 {
		t.Errorf("claimed %+v, malformed %d", got, s.Stats().Malformed)
	}
	if _, _, sizes := claim(t, s.Notices("ops"), 9, time.Hour); sizes.Queued != 1 {
		t.Errorf("left: %+v", sizes)
	}
}

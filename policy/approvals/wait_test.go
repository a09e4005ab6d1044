package approvals_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// TestWaitIsWoken: all waiting calls get an answer at once after a notification, and within two seconds without one;
// one query serves all of them.
func TestWaitIsWoken(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		check.Bubble(t, func(t *testing.T) {
			store := &memory{following: make(chan struct{})}
			k := newKeeper(t, store, approvals.Options{MaxWaiting: 1000})
			a := ask(t, k, request("{}"))
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() { k.Run(ctx) })
			<-store.following
			began := time.Now()
			var waiters sync.WaitGroup
			for range 1000 {
				waiters.Go(func() {
					if got, err := k.Wait(t.Context(), a.Tenant, a.ID); err != nil || got.State != approvals.Approved {
						t.Errorf("%+v, %v", got, err)
					}
				})
			}
			time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
			if n := k.Stats().Waiting; n != 1000 {
				t.Errorf("%d wait", n)
			}
			if n := store.asked(); n > 50 {
				t.Errorf("%d questions in a minute", n)
			}
			if lost {
				store.put(a.ID, func(r *approvals.Record) { r.State = approvals.Approved })
			} else if _, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{}); err != nil {
				t.Error(err)
			}
			waiters.Wait()
			if late := time.Since(began) - time.Minute; late > 2*time.Second || !lost && late > 0 {
				t.Errorf("lost %v: woken after %v", lost, late)
			}
			if n := k.Stats().Waiting; n != 0 {
				t.Errorf("%d wait still", n)
			}
			cancel()
			all.Wait()
		})
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &memory{}
		k := newKeeper(t, store, approvals.Options{})
		a := ask(t, k, request("{}"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var outage sync.WaitGroup
		outage.Go(func() {
			<-time.After(10 * time.Second)
			store.leave(true)
		})
		if got, err := k.Wait(ctx, a.Tenant, a.ID); err != nil || got.State != approvals.Pending || ctx.Err() == nil {
			t.Errorf("%+v, %v; the context: %v", got, err, ctx.Err())
		}
		outage.Wait()
		store.leave(false)
		if _, err := k.Wait(t.Context(), a.Tenant, "apr_none"); reason(err) != "APPROVAL_UNKNOWN" {
			t.Errorf("an unknown one: %v", err)
		}
	})
}

func TestFewWait(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		k := newKeeper(t, &memory{}, approvals.Options{MaxWaiting: 3})
		ctx, cancel := context.WithCancel(t.Context())
		var waiters sync.WaitGroup
		held := ""
		for i := range 3 {
			a := ask(t, k, request(fmt.Sprint(i)))
			held = a.ID
			waiters.Go(func() { _, _ = k.Wait(ctx, a.Tenant, a.ID) })
		}
		synctest.Wait()
		a := ask(t, k, request("3"))
		soon, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		for _, id := range []string{a.ID, held} {
			if _, err := k.Wait(soon, a.Tenant, id); !errors.Is(err, approvals.ErrBusy) {
				t.Errorf("one too many: %v", err)
			}
		}
		if err := k.Events(soon, "acme", "", nil); !errors.Is(err, approvals.ErrBusy) {
			t.Errorf("one reader too many: %v", err)
		}
		cancel()
		waiters.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := k.Wait(ended, a.Tenant, a.ID); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
	})
}

// TestEventsGoOn: after an outage of the store, the reader resumes at its cursor.
func TestEventsGoOn(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &memory{events: []approvals.RecordEvent{{ID: "1-0"}, {ID: "2-0"}, {ID: "3-0"}}, unavailable: true}
		k := newKeeper(t, store, approvals.Options{})
		var outage sync.WaitGroup
		outage.Go(func() {
			<-time.After(10 * time.Second)
			store.leave(false)
		})
		enough := errors.New("enough")
		var got []string
		err := k.Events(t.Context(), "acme", "1-0", func(e approvals.Event) error {
			if e.Kind == approvals.EventsStart {
				return nil
			}
			if got = append(got, e.ID); len(got) == 2 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || fmt.Sprint(got) != "[2-0 3-0]" {
			t.Errorf("%v, %v", got, err)
		}
		outage.Wait()
		for _, bad := range []string{"x", "1", "1-", "-1", "1-0-0", "+", "(1-0", "99999999999999999999-0"} {
			if err := k.Events(t.Context(), "acme", bad, nil); reason(err) != "EVENT_INVALID" {
				t.Errorf("%q: %v", bad, err)
			}
		}
	})
}

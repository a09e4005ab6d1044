package approvals_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// counting counts the reads of events.
type counting struct {
	*memory
	pages, records atomic.Int32
}

func (c *counting) Events(ctx context.Context, tenant, after string, most int) ([]approvals.RecordEvent, string,
	error) {
	events, last, err := c.memory.Events(ctx, tenant, after, most)
	if len(events) > 0 {
		c.pages.Add(1)
	}
	return events, last, err
}

func (c *counting) Get(ctx context.Context, tenant, id string) (approvals.Record, error) {
	c.records.Add(1)
	return c.memory.Get(ctx, tenant, id)
}

// TestEventsAreReadOnce: an event is read from the store once for all readers of a tenant, and once for all readers of
// all tenants.
func TestEventsAreReadOnce(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &counting{memory: &memory{following: make(chan struct{}),
			events: []approvals.RecordEvent{{ID: "1-0"}, {ID: "2-0"}, {ID: "3-0"}}}}
		k := newKeeper(t, store, approvals.Options{})
		a := ask(t, k, request("{}"))
		ctx, cancel := context.WithCancel(t.Context())
		var running, reading sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		<-store.following
		enough := errors.New("enough")
		var begun sync.WaitGroup
		begun.Add(100)
		for range 100 {
			reading.Go(func() {
				got := ""
				if err := k.Events(t.Context(), "acme", "1-0", func(e approvals.Event) error {
					if e.Kind == approvals.EventsStart {
						begun.Done()
						begun.Wait()
					}
					if got += e.ID + " "; e.ID == "3-0" {
						return enough
					}
					return nil
				}); !errors.Is(err, enough) || got != "1-0 2-0 3-0 " {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		reading.Wait()
		if n := store.pages.Load(); n != 2 {
			t.Errorf("%d pages are read for two events", n)
		}
		begun.Add(100)
		for range 100 {
			reading.Go(func() {
				if err := k.AllEvents(t.Context(), false, func(e approvals.Event) error {
					if e.Kind == approvals.EventsStart {
						begun.Done()
						return nil
					}
					return fmt.Errorf("%w: %s", enough, e.Approval.ID)
				}); err == nil || err.Error() != "enough: "+a.ID {
					t.Error(err)
				}
			})
		}
		begun.Wait()
		store.records.Store(0)
		if _, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{}); err != nil {
			t.Error(err)
		}
		reading.Wait()
		if n := store.records.Load(); n > 3 { // Approve reads the record, too
			t.Errorf("%d records are read for one event", n)
		}
		cancel()
		running.Wait()
	})
}

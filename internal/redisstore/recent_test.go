package redisstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// ended is the record of a call.
func ended(tenant, tool string, code uint32) *telemetry.Record {
	rec := &telemetry.Record{Call: &call.Call{Tenant: tenant, Tool: tool, Capability: "weather", Method: call.Invoke},
		Code: code, Started: time.Now(), Ended: time.Millisecond, RequestID: tool}
	if code != 0 {
		rec.Reason = "RATE_LIMITED"
	}
	return rec
}

// newRecent runs a Log of a replica on a Store.
func newRecent(t *testing.T, s *redisstore.Store, replica string, keep int) *recent.Log {
	t.Helper()
	l := recent.New(recent.Config{Keep: keep, Replica: replica, Store: s.Recent(),
		Self: func() recent.Replica { return recent.Replica{Version: "v1", Ready: true, Started: time.Now()} }})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		check.Received(t, done, "the log to stop")
		l.Close()
	})
	return l
}

// toolsOf are the tools of the calls that a replica lists, of one tenant.
func toolsOf(ctx context.Context, l *recent.Log, tenant string) (tools []string) {
	calls, _ := l.Calls(ctx)
	for i := range calls {
		if calls[i].Tenant == tenant {
			tools = append(tools, calls[i].Tool)
		}
	}
	return tools
}

// TestRecentOfTwoReplicas: each sees the calls, changes, counts and the name of the other.
func TestRecentOfTwoReplicas(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		a, b := newRecent(t, open(), "a", 50), newRecent(t, open(), "b", 50)
		a.Record(ended("acme", "one", 0))
		b.Record(ended("acme", "two", 8))
		waiting := ended("other", "three", 9)
		waiting.Reason = call.ApprovalRequired
		b.Record(waiting)
		a.RecordChange(&recent.Change{Actor: "ann", What: "rule.set", Tenant: "acme",
			Targets: []recent.Target{{Name: "tool", Value: "x"}, {Name: "empty"}}})
		for _, l := range []*recent.Log{a, b} {
			check.Until(t, "three calls", func() (bool, string) {
				calls, partial := l.Calls(ctx)
				return len(calls) == 3 && !partial, fmt.Sprint(calls, partial)
			})

			check.Until(t, "the change", func() (bool, string) {
				changes, partial := l.Changes(ctx)
				return len(changes) == 1 && !partial && changes[0].Actor == "ann" && len(changes[0].Targets) == 1 &&
					changes[0].Replica == "a", fmt.Sprint(changes, partial)
			})

			check.Until(t, "both replicas", func() (bool, string) {
				all, partial := l.Replicas(ctx)
				return len(all) == 2 && !partial && all[0].ID == "a" && all[1].ID == "b" && all[1].Version == "v1",
					fmt.Sprint(all, partial)
			})

			check.Until(t, "the counts", func() (bool, string) {
				sum := recent.Counts{}
				of, _ := l.Minutes(ctx, []string{"acme"})
				for _, m := range of {
					sum.Calls += m.Calls
					sum.Refusals += m.Refusals
				}
				all, partial := l.Minutes(ctx, nil)
				for _, m := range all {
					sum.Errors += m.Calls
					sum.Asked += m.Asked
				}
				return !partial && sum == recent.Counts{Calls: 2, Refusals: 1, Errors: 3, Asked: 1},
					fmt.Sprint(sum, partial)
			})

			many := []string{"acme"} // more than one HMGET has
			for n := range 1100 {
				many = append(many, fmt.Sprint("silent-", n))
			}
			many = append(many, "other")
			total := int64(0)
			several, partial := l.Minutes(ctx, many)
			for _, m := range several {
				total += m.Calls
			}
			if partial || total != 3 {
				t.Errorf("%d calls of many tenants, partial %t", total, partial)
			}
		}
		if calls, _ := a.Calls(ctx); calls[0].Ended.Before(calls[2].Ended) {
			t.Errorf("the newest is not the first: %v", calls)
		}
	})
}

// TestRecentShares: a tenant that calls without end displaces neither the calls of others nor its own failed
// ones.
func TestRecentShares(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		a, b := newRecent(t, open(), "a", 20), newRecent(t, open(), "b", 20)
		for i := range 4 {
			a.Record(ended("quiet", fmt.Sprint("quiet", i), 0))
		}
		a.Record(ended("loud", "failed", 14))
		check.Holds(t, "the first calls", func() bool { return len(toolsOf(ctx, b, "quiet")) == 4 })
		for i := range 200 {
			a.Record(ended("loud", fmt.Sprint("a", i), 0))
			b.Record(ended("loud", fmt.Sprint("b", i), 0))
		}
		check.Until(t, "the last call of both", func() (bool, string) {
			loud := toolsOf(ctx, a, "loud")
			return slices.Contains(loud, "a199") && slices.Contains(loud, "b199"), fmt.Sprint(loud)
		})

		calls, _ := a.Calls(ctx)
		if len(calls) != 20 || len(toolsOf(ctx, a, "quiet")) != 4 ||
			!slices.Contains(toolsOf(ctx, b, "loud"), "failed") {
			t.Errorf("%d calls: quiet has %v, loud %v", len(calls), toolsOf(ctx, a, "quiet"), toolsOf(ctx, a, "loud"))
		}
	})
}

// TestRecentWatch: a watch at one replica reports calls at another, once each, and continues after the last
// event that its client has.
func TestRecentWatch(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := newRecent(t, open(), "a", 50), newRecent(t, open(), "b", 50)
		watch := func(after string) (<-chan recent.Event, context.CancelFunc) {
			ctx, stop := context.WithCancel(t.Context())
			events := make(chan recent.Event, 100)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = b.Watch(ctx, after, func(e recent.Event) error {
					events <- e
					return nil
				})
			}()
			return events, func() { stop(); check.Received(t, ended, "the end of the watch") }
		}
		events, stop := watch("")
		if e := check.Received(t, events, "the beginning of the watch"); e.Kind != recent.Began {
			t.Errorf("got %+v", e)
		}
		a.Record(ended("acme", "one", 0))
		first := check.Received(t, events, "a call")
		if first.Kind != recent.Ended || first.Call.Tool != "one" || first.Call.Replica != "a" {
			t.Errorf("got %+v", first)
		}
		stop()
		a.Record(ended("acme", "two", 0))
		check.Holds(t, "the second call", func() bool { return len(toolsOf(t.Context(), b, "acme")) == 2 })
		events, stop = watch(first.Call.ID)
		defer stop()
		check.Received(t, events, "the beginning of the watch")
		if e := check.Received(t, events, "the missed call"); e.Call.Tool != "two" {
			t.Errorf("got %+v", e)
		}
		unknown, end := watch("nothing-1")
		defer end()
		check.Received(t, unknown, "the beginning of the watch")
		if e := check.Received(t, unknown, "that calls are missing"); e.Kind != recent.Missed {
			t.Errorf("got %+v", e)
		}
		a.Record(ended("acme", "three", 0))
		for _, ch := range []<-chan recent.Event{events, unknown} {
			if e := check.Received(t, ch, "the third call"); e.Call.Tool != "three" {
				t.Errorf("got %+v", e)
			}
		}
	})
}

// TestRecentIsBounded: records that others write into Redis may be too large or malformed.
func TestRecentIsBounded(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx, s := t.Context(), open()
		l, p := newRecent(t, s, "a", 50), s.Probe()
		l.Record(ended("acme", "one", 0))
		long, err := json.Marshal(recent.Call{ID: "x-1", Ended: time.Now(),
			Summary: telemetry.Summary{Code: "OK", Tool: strings.Repeat("é", 64<<10)}})
		check.Must(t, err)
		if err := p.Do(ctx, func(ctx context.Context, r redis.Cmdable) error {
			return r.HSet(ctx, p.KeyOf("recent", "calls"), "x-1", long, "x-2", "{", "x-3", "{}").Err()
		}); err != nil {
			t.Fatal(err)
		}
		check.Until(t, "two calls", func() (bool, string) {
			calls, _ := l.Calls(ctx)
			return len(calls) == 2 && len(calls[0].Tool) <= 128 && len(calls[1].Tool) <= 128, fmt.Sprint(calls)
		})

	})
}

// TestRecentAway: without Redis, a replica shows its own calls and says so. Calls that ended meanwhile are
// published when Redis is back.
func TestRecentAway(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	a := newRecent(t, open(t, impatient(server.URL())), "a", 50)
	b := newRecent(t, open(t, redisstore.Config{URL: server.URL()}), "b", 50)
	a.Record(ended("acme", "before", 0))
	check.Holds(t, "the first call", func() bool { return len(toolsOf(ctx, b, "acme")) == 1 })
	server.Freeze()
	a.Record(ended("acme", "meanwhile", 0))
	a.RecordChange(&recent.Change{Actor: "ann", What: "rule.set"})
	check.Until(t, "its own calls", func() (bool, string) {
		calls, partial := a.Calls(ctx)
		return partial && len(calls) == 2 && calls[0].Tool == "meanwhile", fmt.Sprint(calls, partial)
	})

	if changes, partial := a.Changes(ctx); len(changes) != 1 || !partial {
		t.Errorf("got %v, %v", changes, partial)
	}
	if all, partial := a.Replicas(ctx); len(all) != 1 || !partial || all[0].ID != "a" {
		t.Errorf("got %v, %v", all, partial)
	}
	server.Thaw()
	check.Until(t, "the calls of the time without Redis", func() (bool, string) {
		changes, _ := b.Changes(ctx)
		return slices.Equal(toolsOf(ctx, b, "acme"), []string{"meanwhile", "before"}) && len(changes) == 1,
			fmt.Sprint(toolsOf(ctx, b, "acme"), changes)
	})

}

// TestRecentBatchesAreCheap: the number of commands that Redis executes does not grow with the calls of a batch.
func TestRecentBatchesAreCheap(t *testing.T) {
	t.Parallel()
	const calls, most = 500, 20
	server := redistest.Start(t)
	r := open(t, redisstore.Config{URL: server.URL()}).Recent()
	executed := func() (n int) {
		text, _ := server.Do("INFO", "commandstats").(string)
		for line := range strings.Lines(text) {
			if _, stats, ok := strings.Cut(line, "calls="); ok && !strings.HasPrefix(line, "cmdstat_ping") &&
				!strings.HasPrefix(line, "cmdstat_info") && !strings.HasPrefix(line, "cmdstat_evalsha") {
				count, _, _ := strings.Cut(stats, ",")
				of, err := strconv.Atoi(count)
				check.Must(t, err)
				n += of
			}
		}
		return n
	}
	for round := range 3 { // the last one finds a full list
		b := &recent.Batch{}
		for i := range calls {
			b.Calls = append(b.Calls, recent.Call{ID: fmt.Sprintf("%d-%d", round, i), Ended: time.Now(),
				Summary: telemetry.Summary{Tenant: "acme", Code: "OK"}})
		}
		b.Calls = append(b.Calls, b.Calls[0]) // once alone
		check.Must(t, r.Publish(t.Context(), b, 2*calls))
		before := executed()
		check.Must(t, r.Publish(t.Context(), b, 2*calls)) // again, as after a lost response
		if n := executed() - before; n > most {
			t.Errorf("round %d: %d commands for %d calls that are known", round, n, calls)
		}
		if stored, err := r.Calls(t.Context()); err != nil || len(stored) != min(round+1, 2)*calls {
			t.Errorf("round %d: %d calls are stored, %v", round, len(stored), err)
		}
	}
	if n := executed(); n > 10*most {
		t.Errorf("%d commands for %d calls", n, 6*calls)
	}
}

package recent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestWhatOthersWriteIsBounded: a call or a change of another replica is one only with an id and a time, and has short
// texts.
func TestWhatOthersWriteIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1000)
	ok := telemetry.Summary{Code: "OK"}
	c := recent.Call{ID: "1", Ended: time.Now(), Trace: long,
		Summary: telemetry.Summary{Code: "OK", Tool: long, User: long}}
	if !c.Bound() || len(c.Tool)+len(c.User)+len(c.Trace) > 3*128 {
		t.Errorf("%d bytes of a tool, %d of a user", len(c.Tool), len(c.User))
	}
	for _, c := range []recent.Call{{Summary: ok, Ended: time.Now()}, {ID: "1", Ended: time.Now()},
		{ID: "1", Summary: ok}} {
		if c.Bound() {
			t.Errorf("%+v is a call", c)
		}
	}
	d := recent.Change{ID: "1", At: time.Now(), Actor: long, What: long}
	for range 100 {
		d.Targets = append(d.Targets, recent.Target{Name: long, Value: long})
	}
	if !d.Bound() || len(d.Actor)+len(d.What) > 2*256 || len(d.Targets) != 16 {
		t.Errorf("%d bytes of an actor, %d targets", len(d.Actor), len(d.Targets))
	}
	if text := d.JSON(); len(text) > recent.MaxChangeBytes {
		t.Errorf("%d bytes of JSON", len(text))
	}
}

// TestChangesAreKept: the newest MaxChanges, and a filter selects by tenant, actor and kind.
func TestChangesAreKept(t *testing.T) {
	t.Parallel()
	l := recent.New(recent.Config{Keep: 1, Replica: "a"})
	for i := range recent.MaxChanges + 1 {
		l.RecordChange(&recent.Change{Actor: fmt.Sprint(i), What: "rule.set", Tenant: "acme"})
	}
	changes, partial := l.Changes(t.Context())
	if partial || len(changes) != recent.MaxChanges || changes[0].Actor != fmt.Sprint(recent.MaxChanges) {
		t.Errorf("%d changes, partial %v", len(changes), partial)
	}
	c := &recent.Change{Actor: "ann", What: "rule.set", Tenant: "acme"}
	for _, test := range []struct {
		filter recent.ChangeFilter
		is     bool
	}{
		{recent.ChangeFilter{}, true},
		{recent.ChangeFilter{Tenants: []string{"acme"}, Actor: "ann", What: "rule.*"}, true},
		{recent.ChangeFilter{Tenants: []string{"globex"}}, false},
		{recent.ChangeFilter{Actor: "bob"}, false},
		{recent.ChangeFilter{What: "rule."}, false},
		{recent.ChangeFilter{What: "key.*"}, false},
	} {
		if is := test.filter.Matches(c); is != test.is {
			t.Errorf("%+v: %v", test.filter, is)
		}
	}
}

// TestCallsOfEachKindAreKept: a tenant's successes do not displace its failures, quiet calls are counted alone, and the
// newest is the first.
func TestCallsOfEachKindAreKept(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := recent.New(recent.Config{Keep: 10, Replica: "a", Now: func() time.Time { return now }})
	failed, quiet, wrong := record("acme", "failed", 14), record("acme", "quiet", 0), record("acme", "wrong", 0)
	quiet.Quiet, wrong.Outcome = true, telemetry.ToolError
	for _, rec := range []*telemetry.Record{failed, quiet, wrong} {
		l.Record(rec)
	}
	if calls, _ := l.Calls(t.Context()); len(calls) != 2 {
		t.Errorf("%d calls are kept: %+v", len(calls), calls)
	}
	for i := range 100 {
		rec := record("acme", fmt.Sprint(i), 0)
		rec.Started = now.Add(time.Duration(i) * time.Second)
		l.Record(rec)
	}
	calls, _ := l.Calls(t.Context())
	if n := len(calls); n != 10 || calls[0].Tool != "99" || calls[n-1].Tool != "failed" {
		t.Errorf("%d calls: %+v", n, calls)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	l.Run(ctx) // one round
	minutes, _ := l.Minutes(t.Context(), nil)
	want := recent.Counts{Calls: 103, Errors: 1, ToolErrors: 1}
	if got := minutes[recent.Window-1].Counts; got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}

// counting is a store that counts batches and their calls.
type counting struct {
	gone
	batches, calls int
}

func (c *counting) Publish(_ context.Context, b *recent.Batch, _ int) error {
	c.batches, c.calls = c.batches+1, c.calls+len(b.Calls)
	return nil
}

func (c *counting) Leave(context.Context, string) error { return nil }

// TestManyReplicasPublishLess: with a thousand replicas, each publishes a tenth of the batches and calls that it would
// publish with a hundred.
func TestManyReplicasPublishLess(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ replicas, batches, calls int }{
		{0, 40, 4000}, {100, 40, 4000}, {1000, 5, 400}, {5000, 5, 400},
	} {
		check.Bubble(t, func(t *testing.T) {
			store := &counting{}
			l := recent.New(recent.Config{Keep: 500, Replica: "a", Store: store,
				Replicas: func() int { return test.replicas }})
			ctx, stop := context.WithTimeout(t.Context(), 40*time.Second)
			defer stop()
			done := make(chan struct{})
			go func() {
				defer close(done)
				l.Run(ctx)
			}()
			rec := record("acme", "x", 0)
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for ended := false; !ended; { // 150 calls a second
				select {
				case <-tick.C:
					for range 30 {
						l.Record(rec)
					}
				case <-done:
					ended = true
				}
			}
			about := func(got, want int) bool { return got >= want*3/4 && got <= want*5/4+1 }
			if !about(store.batches, test.batches) || !about(store.calls, test.calls) {
				t.Errorf("%d replicas: %d batches with %d calls in 40 s, want about %d with %d", test.replicas,
					store.batches, store.calls, test.batches, test.calls)
			}
		})
	}
}

// gone is a store that does not respond.
type gone struct{ recent.Store }

var errGone = errors.New("gone")

func (gone) Calls(context.Context) ([]recent.Call, error)     { return nil, errGone }
func (gone) Changes(context.Context) ([]recent.Change, error) { return nil, errGone }
func (gone) Minutes(context.Context, []int64, []string) ([]recent.Counts, error) {
	return nil, errGone
}

func (gone) Replicas(context.Context, time.Duration) ([]recent.Replica, error) { return nil, errGone }

// TestAListOfOneReplicaSaysSo: while the store does not respond, each list is that of this replica, and partial.
func TestAListOfOneReplicaSaysSo(t *testing.T) {
	t.Parallel()
	l := recent.New(recent.Config{Keep: 10, Replica: "a", Store: gone{}})
	l.Record(record("acme", "x", 0))
	l.RecordChange(&recent.Change{Actor: "ann", What: "rule.set"})
	calls, partialCalls := l.Calls(t.Context())
	changes, partialChanges := l.Changes(t.Context())
	minutes, partialMinutes := l.Minutes(t.Context(), nil)
	replicas, partialReplicas := l.Replicas(t.Context())
	if len(calls) != 1 || len(changes) != 1 || len(minutes) != recent.Window || len(replicas) != 1 {
		t.Errorf("%v %v %v %v", calls, changes, minutes, replicas)
	}
	if !partialCalls || !partialChanges || !partialMinutes || !partialReplicas {
		t.Errorf("partial: %v %v %v %v", partialCalls, partialChanges, partialMinutes, partialReplicas)
	}
}

// batches is a store that keeps the sizes of batches.
type batches struct {
	shared
	sizes []int
}

func (s *batches) Publish(_ context.Context, b *recent.Batch, _ int) error {
	s.sizes = append(s.sizes, len(b.Calls))
	return nil
}

// TestBatchesAreBounded: many calls are published in several batches.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := &batches{}
		l := recent.New(recent.Config{Keep: 1000, Replica: "a", Store: s})
		for range 250 {
			l.Record(record("acme", "x", 0))
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		l.Run(ctx)
		if fmt.Sprint(s.sizes) != "[100 100 50]" {
			t.Errorf("batches of %v calls", s.sizes)
		}
	})
}

// feed is a store whose watch a test controls.
type feed struct {
	recent.Store
	calls []recent.Call
	watch chan feedOf
}

type feedOf struct {
	told      func([]recent.Call)
	connected func()
}

func (f *feed) Calls(context.Context) ([]recent.Call, error) { return f.calls, nil }

func (f *feed) Watch(ctx context.Context, told func([]recent.Call), connected func()) {
	f.watch <- feedOf{told, connected}
	<-ctx.Done()
}

// TestAWatchResumes: after the last seen call, a watch gets the calls that its filter selects, each once. It reports
// possible gaps: if the last seen call is no longer kept, or the store was unavailable.
func TestAWatchResumes(t *testing.T) {
	t.Parallel()
	call := func(id, tenant string, at int64) recent.Call {
		return recent.Call{ID: id, Summary: telemetry.Summary{Tenant: tenant}, Ended: time.Unix(at, 0)}
	}
	f := &feed{calls: []recent.Call{call("1", "acme", 1), call("2", "globex", 2), call("3", "acme", 3)},
		watch: make(chan feedOf, 1)}
	l := recent.New(recent.Config{Keep: 10, Replica: "a", Store: f})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begin := func(after string) (events chan string, ended chan error) {
		events, ended = make(chan string, 100), make(chan error, 1)
		go func() {
			ended <- l.WatchMatching(ctx, &recent.Filter{Tenants: []string{"acme"}}, after, func(e recent.Event) error {
				events <- e.Kind + e.Call.ID
				return nil
			})
		}()
		return events, ended
	}
	expect := func(events chan string, want ...string) {
		t.Helper()
		for _, w := range want {
			if got := check.Received(t, events, w); got != w {
				t.Errorf("got %s, want %s", got, w)
			}
		}
	}
	resumed, endOfResumed := begin("1")
	store := check.Received(t, f.watch, "the watch of the store")
	store.connected()
	expect(resumed, "began", "call3")
	lost, endOfLost := begin("0")
	expect(lost, "began", "missed")
	store.told([]recent.Call{call("3", "acme", 3), call("4", "acme", 4), call("5", "globex", 5)})
	store.told([]recent.Call{call("4", "acme", 4), call("6", "acme", 6)})
	expect(resumed, "call4", "call6")
	expect(lost, "call3", "call4", "call6")
	store.connected()
	expect(resumed, "missed")
	expect(lost, "missed")
	stop()
	_ = check.Received(t, endOfResumed, "the end of a watch")
	_ = check.Received(t, endOfLost, "the end of a watch")
	l.Close()
}

package drains_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/drains/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

var (
	one   = drains.Key{Capability: "weather", Addr: "10.0.0.1:50051"}
	two   = drains.Key{Capability: "weather", Addr: "10.0.0.2:50051"}
	errIO = errors.New("no answer")
)

// board is a store in memory.
type board struct {
	mu        sync.Mutex
	epoch     string
	drained   map[drains.Key]drains.Drain
	ended     map[drains.Key]bool
	calls     map[string]map[drains.Key]int64 // by replica
	followers []func()
	readOnly  bool
	away      bool
	reports   []drains.Report
	// gets one when an exchange begins, which then waits for proceed; nil: exchanges do not wait
	begun   chan struct{}
	proceed chan struct{}
}

func newBoard() *board {
	b := &board{calls: map[string]map[drains.Key]int64{}}
	b.lose()
	return b
}

func TestTheBoardKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() drains.Store { return newBoard() })
}

func (b *board) Exchange(_ context.Context, r drains.Report) (drains.View, error) {
	if b.begun != nil {
		b.begun <- struct{}{}
		<-b.proceed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return drains.View{}, errIO
	}
	b.reports = append(b.reports, r)
	view := drains.View{Epoch: b.epoch, Written: !b.readOnly}
	if view.Written {
		view.Full = b.write(r)
	}
	for _, d := range b.drained {
		view.Drains = append(view.Drains, d)
	}
	view.Calls = maps.Clone(b.calls)
	return view, nil
}

// write applies a report, and reports whether a part of it was refused.
func (b *board) write(r drains.Report) (full bool) {
	before := maps.Clone(b.drained)
	add := func(key drains.Key, since time.Time) {
		if _, already := b.drained[key]; already {
			return
		}
		if len(b.drained) == drains.MaxDrains {
			full = true
			return
		}
		b.drained[key] = drains.Drain{Key: key, Since: since}
	}
	for _, d := range r.Active {
		if r.Epoch != "" && r.Epoch != b.epoch && !b.ended[d.Key] {
			add(d.Key, d.Since)
		}
	}
	for _, key := range r.Set {
		delete(b.ended, key)
		add(key, time.Now())
	}
	for _, key := range r.End {
		b.ended[key] = true
		delete(b.drained, key)
	}
	for _, d := range r.Active {
		if now := b.drained[d.Key]; now.By == "" && (slices.Contains(r.Set, d.Key) || now.Since.Equal(d.Since)) {
			now.By = d.By
			b.drained[d.Key] = now
		}
	}
	b.calls[r.Replica] = r.Calls
	if r.Leaving {
		delete(b.calls, r.Replica)
	}
	if !maps.Equal(b.drained, before) {
		for _, changed := range b.followers {
			changed()
		}
	}
	return full
}

func (b *board) Watch(ctx context.Context, changed func()) {
	b.change(func() { b.followers = append(b.followers, changed) })
	changed()
	<-ctx.Done()
}

func (b *board) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// lose makes the store an empty one.
func (b *board) lose() {
	b.change(func() {
		b.epoch, b.drained, b.ended = b.epoch+"1", map[drains.Key]drains.Drain{}, map[drains.Key]bool{}
	})
}

func (b *board) keys() (keys []drains.Key) {
	b.change(func() { keys = slices.Collect(maps.Keys(b.drained)) })
	return keys
}

// fleets is a router.
type fleets struct {
	changed chan struct{} // gets one with each change, if there is room

	mu    sync.Mutex
	force []drains.Key
	calls map[drains.Key]int64
}

func (f *fleets) SetDrains(all []drains.Drain) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.force = nil
	for _, d := range all {
		f.force = append(f.force, d.Key)
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fleets) Calls(k drains.Key) (int64, bool) {
	n, known := f.calls[k]
	return n, known
}

func (f *fleets) drained(k drains.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.force, k)
}

func newManager(b *board) (*drains.Manager, *fleets) {
	f := &fleets{calls: map[drains.Key]int64{one: 2, two: 0}}
	return drains.New("here", b, f, slog.New(slog.DiscardHandler)), f
}

func set(t *testing.T, m *drains.Manager, drained, shared bool, keys ...drains.Key) {
	t.Helper()
	if got, err := m.Set(t.Context(), keys, drained, "ann"); err != nil || got != shared {
		t.Fatalf("drained %v of %v: shared %v, %v", drained, keys, got, err)
	}
}

// TestLostStore: a store that has lost its content gets the drains in force back.
func TestLostStore(t *testing.T) {
	t.Parallel()
	b := newBoard()
	m, f := newManager(b)
	set(t, m, true, true, one)
	b.lose()
	m.Read(t.Context())
	if !f.drained(one) || !slices.Contains(b.keys(), one) {
		t.Errorf("in force %v, stored %v", f.force, b.keys())
	}
}

// TestReadOnlyStore: a store that accepts no writes ends no drain, also where it has lost its content, as a replica of
// Redis that is promoted empty. What operators change meanwhile is in force, and is stored later.
func TestReadOnlyStore(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		b := newBoard()
		m, f := newManager(b)
		set(t, m, true, true, one)
		if lost {
			b.lose()
		}
		b.change(func() { b.readOnly = true })
		m.Read(t.Context())
		if !f.drained(one) {
			t.Fatal("the drain has ended with the store's content")
		}
		set(t, m, true, false, two)
		set(t, m, false, false, one)
		m.Read(t.Context())
		if f.drained(one) || !f.drained(two) {
			t.Errorf("lost %v: in force: %v", lost, f.force)
		}
		b.change(func() { b.readOnly = false })
		m.Read(t.Context())
		if f.drained(one) || !f.drained(two) || !slices.Equal(b.keys(), []drains.Key{two}) {
			t.Errorf("lost %v: in force %v, stored %v", lost, f.force, b.keys())
		}
	}
}

// TestChangesWithoutStore: what operators change while the store is unavailable is in force at once, and shared when
// the store is back: a drain that they ended does not come back from the store.
func TestChangesWithoutStore(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		b := newBoard()
		m, f := newManager(b)
		set(t, m, true, true, one)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { m.Run(ctx); close(ended) }()
		synctest.Wait()
		b.change(func() { b.away = true })
		set(t, m, false, false, one)
		set(t, m, true, false, two)
		if l := m.Remaining(two); !l.Drained || l.Shared {
			t.Errorf("%+v", l)
		}
		<-time.After(10 * time.Second)
		if f.drained(one) || !f.drained(two) {
			t.Errorf("in force: %v", f.force)
		}
		b.change(func() { b.away = false })
		<-time.After(2 * time.Second)
		if f.drained(one) || !f.drained(two) || !slices.Equal(b.keys(), []drains.Key{two}) {
			t.Errorf("in force %v, stored %v", f.force, b.keys())
		}
		end()
		<-ended
		if last := b.reports[len(b.reports)-1]; !last.Leaving {
			t.Errorf("the last report: %+v", last)
		}
	})
}

// TestLastChange: of two changes of a backend the later counts, also where the store answers the earlier one.
func TestLastChange(t *testing.T) {
	t.Parallel()
	b := newBoard()
	m, f := newManager(b)
	b.change(func() { b.away = true })
	set(t, m, true, false, one)
	set(t, m, false, false, one)
	b.change(func() { b.away = false })
	m.Read(t.Context())
	if f.drained(one) || len(b.keys()) > 0 {
		t.Errorf("in force %v, stored %v", f.force, b.keys())
	}
}

// TestChangeMeanwhile: a drain that ends while its start is being stored ends in the store, too.
func TestChangeMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBoard()
	b.begun, b.proceed = make(chan struct{}), make(chan struct{})
	m, f := newManager(b)
	var changing sync.WaitGroup
	changing.Go(func() { _, _ = m.Set(t.Context(), []drains.Key{one}, true, "") })
	check.Received(t, b.begun, "the store to be told of the drain")
	f.changed = make(chan struct{}, 1)
	changing.Go(func() { _, _ = m.Set(t.Context(), []drains.Key{one}, false, "") })
	check.Received(t, f.changed, "the change")
	b.proceed <- struct{}{}
	check.Received(t, b.begun, "the store to be told of its end")
	b.proceed <- struct{}{}
	check.Ended(t, &changing, "the changes to end")
	if f.drained(one) || len(b.keys()) > 0 {
		t.Errorf("in force %v, stored %v", f.force, b.keys())
	}
}

// TestMostDrains: drains beyond the bound are rejected, here and by the store, and change nothing.
func TestMostDrains(t *testing.T) {
	t.Parallel()
	b := newBoard()
	m, f := newManager(b)
	if _, err := m.Set(t.Context(), make([]drains.Key, drains.MaxDrains+1), true, ""); !errors.Is(err, drains.ErrFull) {
		t.Errorf("too many at once: %v", err)
	}
	for n := range drains.MaxDrains {
		b.drained[drains.Key{Capability: "other", Addr: string(rune('A' + n))}] = drains.Drain{}
	}
	if shared, err := m.Set(t.Context(), []drains.Key{one}, true, ""); shared || !errors.Is(err, drains.ErrFull) {
		t.Errorf("shared %v, %v", shared, err)
	}
	if f.drained(one) {
		t.Error("a drain that was rejected is in force")
	}
}

// TestRemaining: the remaining calls are those of all replicas, and the replicas that have not applied the drain are
// counted.
func TestRemaining(t *testing.T) {
	t.Parallel()
	b := newBoard()
	b.calls = map[string]map[drains.Key]int64{"slow": {}, "busy": {one: 3}}
	m, _ := newManager(b)
	set(t, m, true, true, one)
	m.Read(t.Context())
	if l := m.Remaining(one); l.Calls != 5 || l.Unacknowledged != 1 || l.Replicas != 3 || !l.Shared || !l.Drained ||
		l.Since.IsZero() {
		t.Errorf("%+v", l)
	}
}

// TestKnownBackends: a replica keeps the drains of the backends that its fleets have, and no others.
func TestKnownBackends(t *testing.T) {
	t.Parallel()
	b := newBoard()
	m, _ := newManager(b)
	gone := drains.Key{Capability: "weather", Addr: "10.0.0.3:50051"}
	set(t, m, true, true, one, gone)
	m.Read(t.Context())
	if r := b.reports[len(b.reports)-1]; len(r.Active) != 2 || !slices.Equal(r.Known, []drains.Key{one}) {
		t.Errorf("%d in force, known %v", len(r.Active), r.Known)
	}
}

// TestManyReplicasExchangeLess: the interval of exchanges grows with the replicas whose calls each exchange returns.
func TestManyReplicasExchangeLess(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ others, exchanges int }{{0, 60}, {199, 60}, {399, 30}, {999, 12}, {9999, 12}} {
		check.Bubble(t, func(t *testing.T) {
			b := newBoard()
			for n := range test.others {
				b.calls[fmt.Sprint("other-", n)] = map[drains.Key]int64{}
			}
			m, _ := newManager(b)
			set(t, m, true, true, one)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			m.Run(ctx)
			if n := len(b.reports); n < test.exchanges || n > test.exchanges+5 { // also at the start and the end
				t.Errorf("%d others: %d exchanges in a minute, want about %d", test.others, n, test.exchanges)
			}
		})
	}
}

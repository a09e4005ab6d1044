// Package storetest has the tests that every catalog.Store passes.
package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/catalog"
)

// Suite returns the tests.
func Suite() contract.Suite[catalog.Store] {
	return contract.Suite[catalog.Store]{
		"tools are shared":                 testShared,
		"discovered sets are shared":       testSets,
		"one replica discovers at a time":  testLease,
		"the lease of a dead replica ends": testLeaseEnds,
		"changes are notified":             testWatch,
	}
}

var hashA, hashB = toolschema.Hash{1, 2, 3}, toolschema.Hash{4, 5, 6}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Write makes a change.
func Write(t *testing.T, s catalog.Store, change catalog.Change) {
	t.Helper()
	check.Must(t, s.Write(t.Context(), change))
}

// Read returns the record of a capability, for a reader that has the set with a sum.
func Read(t *testing.T, s catalog.Store, capability, sum string) catalog.Record {
	t.Helper()
	all, err := s.Read(t.Context(), []catalog.ReadRequest{{Capability: "other"}, {Capability: capability, Sum: sum}})
	if err != nil || len(all) != 2 || len(all[0].Accepted) != 0 || all[0].Sum != "" {
		t.Fatal(all, err)
	}
	return all[1]
}

// Changed returns the changes since a revision.
func Changed(t *testing.T, s catalog.Store, since changefeed.Position) catalog.Changes {
	t.Helper()
	news, err := s.Changed(t.Context(), since)
	check.Must(t, err)
	return news
}

func testShared(t *testing.T, open func() catalog.Store) {
	a, b := open(), open()
	if news := Changed(t, b, changefeed.Position{}); news.Now != (changefeed.Position{}) || news.Everything {
		t.Errorf("there is nothing: %+v", news)
	}
	Write(t, a, catalog.Change{Capability: "weather", Tools: map[string]toolschema.Hash{"x": hashA, "y": hashA}})
	news := Changed(t, b, changefeed.Position{})
	if news.Now.Epoch == "" || !news.Everything {
		t.Errorf("a first change: %+v", news)
	}
	mark := news.Now
	if got := Read(t, b, "weather", ""); !reflect.DeepEqual(got.Accepted, map[string]toolschema.Hash{"x": hashA,
		"y": hashA}) || got.Set != nil || got.Sum != "" {
		t.Errorf("%+v", got)
	}
	// An accepted hash stays until another one is accepted.
	Write(t, a, catalog.Change{Capability: "weather", Tools: map[string]toolschema.Hash{"x": hashB}})
	if news := Changed(t, b, mark); news.Now != mark || len(news.Capabilities) > 0 {
		t.Errorf("nothing has changed: %+v", news)
	}
	check.Must(t, b.Accept(t.Context(), "weather", "x", hashB))
	Write(t, b, catalog.Change{Capability: "mail", Removed: []string{"none"},
		Tools: map[string]toolschema.Hash{"send": hashA}})
	news = Changed(t, a, mark)
	slices.Sort(news.Capabilities)
	if news.Everything || news.Now.Version <= mark.Version || !slices.Equal(news.Capabilities,
		[]string{"mail", "weather"}) {
		t.Errorf("two have changed: %+v", news)
	}
	Write(t, a, catalog.Change{Capability: "weather", Removed: []string{"y"}})
	both := map[string]toolschema.Hash{"x": hashB, "y": hashA}
	if got := Read(t, b, "weather", ""); !reflect.DeepEqual(got.Accepted, both) ||
		!reflect.DeepEqual(got.Removed, map[string]bool{"y": true}) {
		t.Errorf("what was accepted of a tool that is gone: %+v", got)
	}
	before := Changed(t, b, mark)
	Write(t, a, catalog.Change{Capability: "weather", Removed: []string{"y"},
		Tools: map[string]toolschema.Hash{"x": hashB, "y": hashB}})
	if got := Read(t, b, "weather", ""); !reflect.DeepEqual(got.Accepted, both) || len(got.Removed) != 1 {
		t.Errorf("gone as before: %+v", got)
	}
	if now := Changed(t, b, mark).Now; now != before.Now {
		t.Errorf("gone as before: revision %+v, before %+v", now, before.Now)
	}
	Write(t, a, catalog.Change{Capability: "weather", Tools: map[string]toolschema.Hash{"y": hashB}})
	if got := Read(t, b, "weather", ""); !reflect.DeepEqual(got.Accepted, both) || len(got.Removed) != 0 {
		t.Errorf("back again: %+v", got)
	}
	for _, mark := range []changefeed.Position{{Epoch: "another", Version: 1},
		{Epoch: news.Now.Epoch, Version: 1 << 60}} {
		if news := Changed(t, b, mark); !news.Everything {
			t.Errorf("%+v leads to %+v", mark, news)
		}
	}
}

func testSets(t *testing.T, open func() catalog.Store) {
	a, b := open(), open()
	const set = `[{"name": "x\u0000"}]` + "\x00\xff"
	turn, err := a.AcquireLease(t.Context(), "weather", time.Minute, 0)
	if err != nil || turn.ID == "" {
		t.Fatal(turn, err)
	}
	Write(t, a, catalog.Change{Capability: "weather", Lease: turn.ID, Sum: sumOf(set), Set: []byte(set),
		Tools: map[string]toolschema.Hash{"x": hashA}})
	got := Read(t, b, "weather", "")
	if string(got.Set) != set || got.Sum != sumOf(set) || time.Since(got.Last.Succeeded).Abs() > time.Hour ||
		!got.Last.Failed.IsZero() || got.Last.Error != "" {
		t.Errorf("%+v", got)
	}
	if got := Read(t, b, "weather", sumOf(set)); got.Set != nil || got.Sum != sumOf(set) {
		t.Errorf("the reader gets its own set again: %+v", got)
	}
	turn, err = b.AcquireLease(t.Context(), "weather", time.Minute, 0)
	if err != nil || turn.ID == "" {
		t.Fatal(turn, err)
	}
	Write(t, b, catalog.Change{Capability: "weather", Lease: turn.ID, Error: "no answer"})
	if got := Read(t, a, "weather", ""); string(got.Set) != set || got.Last.Error != "no answer" ||
		got.Last.Succeeded.IsZero() || got.Last.Failed.IsZero() {
		t.Errorf("after a failure: %+v", got)
	}
}

func testLease(t *testing.T, open func() catalog.Store) {
	stores := []catalog.Store{open(), open(), open()}
	var all sync.WaitGroup
	turns := make([]catalog.Lease, 30)
	for i := range turns {
		all.Go(func() {
			var err error
			if turns[i], err = stores[i%3].AcquireLease(t.Context(), "weather", time.Minute, 0); err != nil {
				t.Error(err)
			}
		})
	}
	check.Ended(t, &all, "the requests for the lease")
	var mine catalog.Lease
	for _, turn := range turns {
		if turn.ID != "" && mine.ID != "" {
			t.Errorf("two have it")
		}
		if turn.ID != "" {
			mine = turn
		} else if !turn.Busy || turn.Wait <= 0 || turn.Wait > time.Minute {
			t.Errorf("%+v", turn)
		}
	}
	if other, err := stores[1].AcquireLease(t.Context(), "mail", time.Minute, time.Hour); err != nil ||
		other.ID == "" {
		t.Errorf("another capability: %+v, %v", other, err)
	}
	if err := stores[1].Write(t.Context(), catalog.Change{Capability: "weather", Lease: "forged", Sum: "s",
		Set: []byte("x")}); !errors.Is(err, catalog.ErrLeaseLost) {
		t.Errorf("written without the lease: %v", err)
	}
	Write(t, stores[0], catalog.Change{Capability: "weather", Lease: mine.ID, Error: "failed"})
	if turn, err := stores[1].AcquireLease(t.Context(), "weather", time.Minute, time.Hour); err != nil ||
		turn.ID != "" || turn.Busy || turn.Wait <= 0 || turn.Wait > time.Hour {
		t.Errorf("too early: %+v, %v", turn, err)
	}
	next, err := stores[1].AcquireLease(t.Context(), "weather", time.Minute, 0)
	if err != nil || next.ID == "" {
		t.Errorf("the next lease: %+v, %v", next, err)
	}
	if err := stores[0].Write(t.Context(), catalog.Change{Capability: "weather", Lease: mine.ID}); !errors.Is(err,
		catalog.ErrLeaseLost) {
		t.Errorf("written with an old lease: %v", err)
	}
}

func testLeaseEnds(t *testing.T, open func() catalog.Store) {
	c := open()
	if turn, err := c.AcquireLease(t.Context(), "weather", 200*time.Millisecond, 0); err != nil || turn.ID == "" {
		t.Fatal(turn, err)
	}
	for {
		turn, err := c.AcquireLease(t.Context(), "weather", time.Minute, 0)
		check.Must(t, err)
		if turn.ID != "" {
			return
		}
		<-time.After(turn.Wait)
	}
}

func testWatch(t *testing.T, open func() catalog.Store) {
	a, b := open(), open()
	told := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { b.Watch(ctx, func() { told <- struct{}{} }) })
	check.Received(t, told, "the subscription")
	check.Must(t, a.Accept(t.Context(), "weather", "x", hashA))
	check.Received(t, told, "the change")
	cancel()
	check.Ended(t, &watching, "the watches to stop")
}

package redisstore_test

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

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/catalog"
)

var hashA, hashB = toolschema.Hash{1, 2, 3}, toolschema.Hash{4, 5, 6}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func write(t *testing.T, c *redisstore.Catalog, change catalog.Change) {
	t.Helper()
	check.Must(t, c.Write(t.Context(), change))
}

func readOne(t *testing.T, c *redisstore.Catalog, capability, sum string) catalog.Record {
	t.Helper()
	all, err := c.Read(t.Context(), []catalog.ReadRequest{{Capability: "other"}, {Capability: capability, Sum: sum}})
	if err != nil || len(all) != 2 || len(all[0].Accepted) != 0 || all[0].Sum != "" {
		t.Fatal(all, err)
	}
	return all[1]
}

func changed(t *testing.T, c *redisstore.Catalog, since catalog.Revision) catalog.Changes {
	t.Helper()
	news, err := c.Changed(t.Context(), since)
	check.Must(t, err)
	return news
}

func TestToolsAreShared(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Catalog(), open().Catalog()
		if news := changed(t, b, catalog.Revision{}); news.Now != (catalog.Revision{}) || news.Everything {
			t.Errorf("there is nothing: %+v", news)
		}
		write(t, a, catalog.Change{Capability: "weather", Tools: map[string]toolschema.Hash{"x": hashA, "y": hashA}})
		news := changed(t, b, catalog.Revision{})
		if news.Now.Epoch == "" || !news.Everything {
			t.Errorf("a first change: %+v", news)
		}
		mark := news.Now
		if got := readOne(t, b, "weather", ""); !reflect.DeepEqual(got.Accepted, map[string]toolschema.Hash{"x": hashA,
			"y": hashA}) || got.Set != nil || got.Sum != "" {
			t.Errorf("%+v", got)
		}
		// An accepted hash stays until another one is accepted.
		write(t, a, catalog.Change{Capability: "weather", Tools: map[string]toolschema.Hash{"x": hashB}})
		if news := changed(t, b, mark); news.Now != mark || len(news.Capabilities) > 0 {
			t.Errorf("nothing has changed: %+v", news)
		}
		check.Must(t, b.Accept(t.Context(), "weather", "x", hashB))
		write(t, b, catalog.Change{Capability: "mail", Removed: []string{"none"},
			Tools: map[string]toolschema.Hash{"send": hashA}})
		news = changed(t, a, mark)
		slices.Sort(news.Capabilities)
		if news.Everything || news.Now.Version <= mark.Version || !slices.Equal(news.Capabilities,
			[]string{"mail", "weather"}) {
			t.Errorf("two have changed: %+v", news)
		}
		write(t, a, catalog.Change{Capability: "weather", Removed: []string{"y"}})
		both := map[string]toolschema.Hash{"x": hashB, "y": hashA}
		if got := readOne(t, b, "weather", ""); !reflect.DeepEqual(got.Accepted, both) ||
			!reflect.DeepEqual(got.Removed, map[string]bool{"y": true}) {
			t.Errorf("what was accepted of a tool that is gone: %+v", got)
		}
		before := changed(t, b, mark)
		write(t, a, catalog.Change{Capability: "weather", Removed: []string{"y"},
			Tools: map[string]toolschema.Hash{"x": hashB, "y": hashB}})
		if got := readOne(t, b, "weather", ""); !reflect.DeepEqual(got.Accepted, both) || len(got.Removed) != 1 {
			t.Errorf("gone as before: %+v", got)
		}
		if now := changed(t, b, mark).Now; now != before.Now {
			t.Errorf("gone as before: revision %+v, before %+v", now, before.Now)
		}
		write(t, a, catalog.Change{Capability: "weather", Tools: map[string]toolschema.Hash{"y": hashB}})
		if got := readOne(t, b, "weather", ""); !reflect.DeepEqual(got.Accepted, both) || len(got.Removed) != 0 {
			t.Errorf("back again: %+v", got)
		}
		for _, mark := range []catalog.Revision{{Epoch: "another", Version: 1},
			{Epoch: news.Now.Epoch, Version: 1 << 60}} {
			if news := changed(t, b, mark); !news.Everything {
				t.Errorf("%+v leads to %+v", mark, news)
			}
		}
	})
}

// TestCatalogAfterAFailover: a replica that knows a change which a failover has undone misses no later one.
func TestCatalogAfterAFailover(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		c, p := store.Catalog(), store.Probe()
		change := func(capability string) catalog.Revision {
			t.Helper()
			write(t, c, catalog.Change{Capability: capability, Tools: map[string]toolschema.Hash{"x": hashA}})
			return changed(t, c, catalog.Revision{}).Now
		}
		before := change("weather")
		known := change("mail")
		check.Must(t, p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return errors.Join(r.ZRem(ctx, p.KeyOf("catalog", "changes"), "mail").Err(),
				r.HSet(ctx, p.KeyOf("catalog", "state"), "version", before.Version).Err())
		}))
		change("news")
		if got := changed(t, c, known); !got.Everything && !slices.Contains(got.Capabilities, "news") {
			t.Errorf("%+v", got)
		}
	})
}

func TestDiscoveredSetsAreShared(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Catalog(), open().Catalog()
		const set = `[{"name": "x\u0000"}]` + "\x00\xff"
		turn, err := a.AcquireLease(t.Context(), "weather", time.Minute, 0)
		if err != nil || turn.ID == "" {
			t.Fatal(turn, err)
		}
		write(t, a, catalog.Change{Capability: "weather", Lease: turn.ID, Sum: sumOf(set), Set: []byte(set),
			Tools: map[string]toolschema.Hash{"x": hashA}})
		got := readOne(t, b, "weather", "")
		if string(got.Set) != set || got.Sum != sumOf(set) || time.Since(got.Last.Succeeded).Abs() > time.Hour ||
			!got.Last.Failed.IsZero() || got.Last.Error != "" {
			t.Errorf("%+v", got)
		}
		if got := readOne(t, b, "weather", sumOf(set)); got.Set != nil || got.Sum != sumOf(set) {
			t.Errorf("who has it gets it again: %+v", got)
		}
		turn, err = b.AcquireLease(t.Context(), "weather", time.Minute, 0)
		if err != nil || turn.ID == "" {
			t.Fatal(turn, err)
		}
		write(t, b, catalog.Change{Capability: "weather", Lease: turn.ID, Error: "no answer"})
		if got := readOne(t, a, "weather", ""); string(got.Set) != set || got.Last.Error != "no answer" ||
			got.Last.Succeeded.IsZero() || got.Last.Failed.IsZero() {
			t.Errorf("after a failure: %+v", got)
		}
	})
}

// TestOneDiscoversAtATime: one replica has the lease, until it ends the discovery or the lease expires.
func TestOneDiscoversAtATime(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		stores := []*redisstore.Catalog{open().Catalog(), open().Catalog(), open().Catalog()}
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
		check.Ended(t, &all, "the answers to who asks for the lease")
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
			t.Errorf("written in no turn: %v", err)
		}
		write(t, stores[0], catalog.Change{Capability: "weather", Lease: mine.ID, Error: "failed"})
		if turn, err := stores[1].AcquireLease(t.Context(), "weather", time.Minute, time.Hour); err != nil ||
			turn.ID != "" || turn.Busy || turn.Wait <= 0 || turn.Wait > time.Hour {
			t.Errorf("too early: %+v, %v", turn, err)
		}
		next, err := stores[1].AcquireLease(t.Context(), "weather", time.Minute, 0)
		if err != nil || next.ID == "" {
			t.Errorf("the next turn: %+v, %v", next, err)
		}
		if err := stores[0].Write(t.Context(), catalog.Change{Capability: "weather", Lease: mine.ID}); !errors.Is(err,
			catalog.ErrLeaseLost) {
			t.Errorf("written in an old turn: %v", err)
		}
	})
}

// TestADiscovererDies: another replica gets the lease after it has expired.
func TestADiscovererDies(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		c := open().Catalog()
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
	})
}

// TestMalformedTools: a malformed hash matches no tool, and a malformed set is absent.
func TestMalformedTools(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		c := s.Catalog()
		write(t, c, catalog.Change{Capability: "weather", Tools: map[string]toolschema.Hash{"x": hashA}})
		probe := s.Probe()
		if err := probe.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			if err := r.HSet(ctx, probe.KeyOf("catalog", "accepted", "weather"), "x", "no hash").Err(); err != nil {
				return err
			}
			if err := r.HSet(ctx, probe.KeyOf("catalog", "about", "weather"), "sum", sumOf("a"), "ok", "x", "failed",
				"-").Err(); err != nil {
				return err
			}
			if err := r.HSet(ctx, probe.KeyOf("catalog", "turns"), "weather", "what").Err(); err != nil {
				return err
			}
			return r.Set(ctx, probe.KeyOf("catalog", "set", "weather"), "b", 0).Err()
		}); err != nil {
			t.Fatal(err)
		}
		got := readOne(t, c, "weather", "")
		if got.Accepted["x"] != (toolschema.Hash{}) || got.Set != nil || !got.Last.Succeeded.IsZero() {
			t.Errorf("%+v", got)
		}
		if n := s.Stats().Malformed; n != 2 {
			t.Errorf("%d malformed values counted", n)
		}
		if turn, err := c.AcquireLease(t.Context(), "weather", time.Minute, time.Hour); err != nil || turn.ID == "" {
			t.Errorf("%+v, %v", turn, err)
		}
	})
}

func TestToolsAreFollowed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Catalog(), open().Catalog()
		told := make(chan struct{}, 100)
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { b.Watch(ctx, func() { told <- struct{}{} }) })
		check.Received(t, told, "the subscription")
		check.Must(t, a.Accept(t.Context(), "weather", "x", hashA))
		check.Received(t, told, "the change")
		cancel()
		check.Ended(t, &watching, "the watches to stop")
	})
}

package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/policy/catalog/storetest"
)

var hashA, hashB = toolschema.Hash{1, 2, 3}, toolschema.Hash{4, 5, 6}

func TestCatalog(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) catalog.Store { return s.Catalog() })
}

// TestCatalogAfterAFailover: a replica that has read a change which a failover undid misses no later change.
func TestCatalogAfterAFailover(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		c, p := store.Catalog(), store.Probe()
		change := func(capability string) changefeed.Position {
			t.Helper()
			storetest.Write(t, c, catalog.Change{Capability: capability, Tools: map[string]toolschema.Hash{"x": hashA}})
			return storetest.Changed(t, c, changefeed.Position{}).Now
		}
		before := change("weather")
		known := change("mail")
		check.Must(t, p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return errors.Join(r.ZRem(ctx, p.KeyOf("catalog", "changes"), "mail").Err(),
				r.HSet(ctx, p.KeyOf("catalog", "state"), "version", before.Version).Err())
		}))
		change("news")
		if got := storetest.Changed(t, c, known); !got.Everything && !slices.Contains(got.Capabilities, "news") {
			t.Errorf("got %+v", got)
		}
	})
}

// TestMalformedTools: a malformed hash matches no tool, and a malformed set is absent.
func TestMalformedTools(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		c := s.Catalog()
		storetest.Write(t, c, catalog.Change{Capability: "weather", Tools: map[string]toolschema.Hash{"x": hashA}})
		probe := s.Probe()
		if err := probe.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			if err := r.HSet(ctx, probe.KeyOf("catalog", "accepted", "weather"), "x", "no hash").Err(); err != nil {
				return err
			}
			if err := r.HSet(ctx, probe.KeyOf("catalog", "about", "weather"), "sum", strings.Repeat("a", 64),
				"ok", "x", "failed", "-").Err(); err != nil {
				return err
			}
			if err := r.HSet(ctx, probe.KeyOf("catalog", "turns"), "weather", "what").Err(); err != nil {
				return err
			}
			return r.Set(ctx, probe.KeyOf("catalog", "set", "weather"), "b", 0).Err()
		}); err != nil {
			t.Fatal(err)
		}
		got := storetest.Read(t, c, "weather", "")
		if got.Accepted["x"] != (toolschema.Hash{}) || got.Set != nil || !got.Last.Succeeded.IsZero() {
			t.Errorf("got %+v", got)
		}
		if n := s.Stats().Malformed; n != 2 {
			t.Errorf("%d malformed values counted", n)
		}
		if turn, err := c.AcquireLease(t.Context(), "weather", time.Minute, time.Hour); err != nil || turn.ID == "" {
			t.Errorf("got %+v, %v", turn, err)
		}
	})
}

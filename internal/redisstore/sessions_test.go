package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/router/affinity"
	"github.com/capgate/capgate/router/affinity/storetest"
)

// TestSessions: replicas share the backends of sessions and artifacts.
func TestSessions(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) affinity.Store { return s.Sessions() })
}

// A malformed value is skipped, and counted.
func TestMalformedPins(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		s, p := store.Sessions(), store.Probe()
		for i, write := range []func(ctx context.Context, r redis.Cmdable, key string) error{
			func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.Set(ctx, key, "nonsense", 0).Err()
			},
			func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.Set(ctx, key, "1 2 a:1 b c", 0).Err()
			},
			func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.Set(ctx, key, strings.Repeat("9", 16)+" 1 a:1 x", 0).Err()
			},
			func(ctx context.Context, r redis.Cmdable, key string) error { return r.Set(ctx, key, "", 0).Err() },
			func(ctx context.Context, r redis.Cmdable, key string) error { return r.LPush(ctx, key, "x").Err() },
		} {
			session := affinity.Session{Tenant: "default", Capability: "caps", ID: fmt.Sprint(i)}
			if err := p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return write(ctx, r, redisstore.PinKey(s, session))
			}); err != nil {
				t.Fatal(err)
			}
			if got := storetest.Bind(t, s, storetest.Binding(session, "a:1", 0)); got.Pin.Addr != "a:1" || !got.New {
				t.Errorf("%d: %+v", i, got)
			}
			if n := store.Stats().Malformed; n != int64(i+1) {
				t.Errorf("%d: %d malformed values", i, n)
			}
		}
	})
}

// TestMalformedArtifacts: a malformed location counts as absent, and is counted.
func TestMalformedArtifacts(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		a, p := store.Sessions(), store.Probe()
		file := func(id string) affinity.Artifact {
			return affinity.Artifact{Tenant: "default", Capability: "caps", ID: id}
		}
		if err := p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			key := redisstore.ArtifactKey(a, file("list"))
			if err := r.LPush(ctx, key, "x").Err(); err != nil {
				return err
			}
			return r.Set(ctx, redisstore.ArtifactKey(a, file("long")), strings.Repeat("x", 1000), 0).Err()
		}); err != nil {
			t.Fatal(err)
		}
		before := store.Stats().Malformed
		for _, id := range []string{"list", "long"} {
			if got, err := a.Locate(t.Context(), file(id)); got != "" || err != nil {
				t.Errorf("%s: %.20q, %v", id, got, err)
			}
		}
		if n := store.Stats().Malformed - before; n != 2 {
			t.Errorf("%d malformed values, want 2", n)
		}
	})
}

package redisstore_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// tidy makes the next read delete manifests that no lease names.
func tidy(t *testing.T, r *redisstore.Registrations) {
	t.Helper()
	err := r.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
		return c.HDel(ctx, r.Keys()[3], "tidied", "swept").Err()
	})
	check.Must(t, err)
	storetest.Read(t, r, "")
}

// TestUnusedManifestsAreDeleted: the text of a manifest is kept while a lease names it. A renewal stores a lost text
// again.
func TestUnusedManifestsAreDeleted(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Registrations(), open().Registrations()
		const one, two = "id: weather\n", "id: news\n"
		put := func(g *registry.Registration) {
			t.Helper()
			check.Must(t, a.Register(t.Context(), g, true, 9))
		}
		stored := func(when, want string) {
			t.Helper()
			tidy(t, b)
			if got := storetest.Manifests(t, b, one, two); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		put(storetest.WithManifest("10.0.0.7:1", "l1", one))
		put(storetest.WithManifest("10.0.0.8:1", "l2", two))
		stored("both are named", one+"|"+two)
		put(storetest.Registration("10.0.0.7:1", "l1"))
		stored("one is named", "|"+two)
		check.Must(t, a.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
			return c.Del(ctx, a.Keys()[4]).Err()
		}))
		without := storetest.WithManifest("10.0.0.8:1", "l2", two)
		without.Manifest.Text = ""
		if err := a.Register(t.Context(), without, true, 9); err == nil {
			t.Error("a registration without its lost manifest succeeded")
		}
		put(storetest.WithManifest("10.0.0.8:1", "l2", two))
		stored("a renewal has brought it back", "|"+two)
		_, err := a.Withdraw(t.Context(), without.Key(), "")
		check.Must(t, err)
		stored("none is named", "|")
	})
}

package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// bringing is a registration with a manifest.
func bringing(addr, lease, text string) *registry.Registration {
	g := registration(addr, lease)
	g.Manifest = registry.NewManifest(text)
	return g
}

// manifests returns the texts of stored manifests, separated by bars; "" is a missing one.
func manifests(t *testing.T, r *redisstore.Registrations, texts ...string) string {
	t.Helper()
	var all []string
	for _, text := range texts {
		got, err := r.Manifest(t.Context(), registry.NewManifest(text).Sum)
		check.Must(t, err)
		all = append(all, got)
	}
	return strings.Join(all, "|")
}

// tidy makes the next read delete manifests that no lease names.
func tidy(t *testing.T, r *redisstore.Registrations) {
	t.Helper()
	err := r.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
		return c.HDel(ctx, r.Keys()[3], "tidied", "swept").Err()
	})
	check.Must(t, err)
	reading(t, r, "")
}

func TestRegistrationsBringManifests(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Registrations(), open().Registrations()
		const one, two = "id: weather\nimage: \"one\"\n", "id: weather\nimage: {\"manifest\":\"00\"}\x00\n"
		put := func(g *registry.Registration) {
			t.Helper()
			check.Must(t, a.Register(t.Context(), g, true, 9))
		}
		put(bringing("10.0.0.7:1", "l1", one))
		put(bringing("10.0.0.8:1", "l2", one))
		put(bringing("10.0.0.9:1", "l3", two))
		got := reading(t, b, "")
		for i, text := range []string{one, one, two} {
			if want := registry.NewManifest(text).Sum; got.Live[i].Manifest != (registry.Manifest{Sum: want}) {
				t.Errorf("%d: %+v", i, got.Live[i].Manifest)
			}
		}
		if got := manifests(t, b, one, two, "none"); got != one+"|"+two+"|" {
			t.Errorf("%q", got)
		}

		// A renewal is no change; another manifest is one, and so is none.
		put(bringing("10.0.0.8:1", "l2", one))
		if again := reading(t, b, got.Version); !again.Unchanged {
			t.Errorf("after a renewal: %+v", again)
		}
		put(bringing("10.0.0.8:1", "l2", two))
		changed := reading(t, b, got.Version)
		if changed.Unchanged || changed.Live[1].Manifest.Sum != registry.NewManifest(two).Sum {
			t.Errorf("%+v", changed)
		}
		tidy(t, b)
		if got := manifests(t, b, one, two); got != one+"|"+two {
			t.Errorf("%q", got)
		}
		put(registration("10.0.0.7:1", "l1"))
		if now := reading(t, b, changed.Version); now.Unchanged || now.Live[0].Manifest != (registry.Manifest{}) {
			t.Errorf("%+v", now)
		}
		tidy(t, b)
		if got := manifests(t, b, one, two); got != "|"+two {
			t.Errorf("when one is not named any more: %q", got)
		}

		// A lost manifest returns with the next renewal, which fails without it.
		if err := a.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
			return c.Del(ctx, a.Keys()[4]).Err()
		}); err != nil {
			t.Fatal(err)
		}
		without := bringing("10.0.0.9:1", "l3", two)
		without.Manifest.Text = ""
		if err := a.Register(t.Context(), without, true, 9); err == nil {
			t.Error("a registration without its manifest succeeded")
		}
		put(bringing("10.0.0.9:1", "l3", two))
		if got := manifests(t, b, two); got != two {
			t.Errorf("%q", got)
		}
		for _, key := range []string{"10.0.0.8:1", "10.0.0.9:1"} {
			if _, err := a.Withdraw(t.Context(), registry.Key{Capability: "weather", Addr: key}, ""); err != nil {
				t.Fatal(err)
			}
		}
		tidy(t, b)
		if got := manifests(t, b, one, two); got != "|" {
			t.Errorf("when nobody is left: %q", got)
		}
	})
}

// The size of all texts is bounded, and those that no lease names do not count.
func TestRegistrationsManifestsFull(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := open().Registrations()
		const quarter = registry.MaxManifests / 4
		for i, addr := range []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1"} {
			if err := r.Register(t.Context(), bringing(addr, "l", strings.Repeat(string(rune('a'+i)), quarter)), false,
				9); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Register(t.Context(), bringing("10.0.0.5:1", "l", "more"), false, 9); !errors.Is(err,
			registry.ErrManifests) {
			t.Error(err)
		}
		if err := r.Register(t.Context(), bringing("10.0.0.5:1", "l", strings.Repeat("a", quarter)), false,
			9); err != nil {
			t.Error("one that is there: ", err)
		}
		if err := r.Register(t.Context(), registration("10.0.0.2:1", "l"), true, 9); err != nil {
			t.Error(err)
		}
		if err := r.Register(t.Context(), bringing("10.0.0.2:1", "l", "more"), true, 9); err != nil {
			t.Error("when there is room again: ", err)
		}
		if got := manifests(t, r, "more", strings.Repeat("b", quarter)); got != "more|" {
			t.Errorf("%.100q", got)
		}
	})
}

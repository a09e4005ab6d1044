package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/gateway/upstream/sessions"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// entered is a result of Enter.
func entered(t *testing.T, u *redisstore.UpstreamSessions, name sessions.Name, id string) string {
	t.Helper()
	value, use, err := u.Enter(t.Context(), name, sessions.Session{ID: id, Value: []byte("value of " + id)}, time.Hour)
	check.Must(t, err)
	return fmt.Sprintf("%s %d", value, use)
}

// TestUpstreamSessions: the first session of a name is stored. Others get it, each with a number of its own, until it
// ends.
func TestUpstreamSessions(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := open().UpstreamSessions(), open().UpstreamSessions()
		name := sessions.Name{Tenant: "acme", Capability: "files", Sum: "1a"}
		for i, test := range []struct {
			u        *redisstore.UpstreamSessions
			id, want string
		}{
			{one, "", " 0"}, {one, "s1", " 0"}, {two, "", "value of s1 1"}, {two, "s2", "value of s1 2"},
			{one, "s1", " 0"}, {two, "", "value of s1 3"},
		} {
			if got := entered(t, test.u, name, test.id); got != test.want {
				t.Errorf("%d: %q, want %q", i, got, test.want)
			}
		}
		for _, other := range []sessions.Name{{Tenant: "globex", Capability: "files", Sum: "1a"},
			{Tenant: "acme", Capability: "mail", Sum: "1a"}, {Tenant: "acme", Capability: "files", Sum: "1b"}} {
			if got := entered(t, one, other, ""); got != " 0" {
				t.Errorf("%+v: %q", other, got)
			}
		}
		end := func(id string, idle time.Duration, want bool) {
			t.Helper()
			if got, err := two.End(t.Context(), name, id, idle); got != want || err != nil {
				t.Errorf("the end of %s after %v: %t, %v", id, idle, got, err)
			}
		}
		end("s2", 0, false)
		end("s1", time.Hour, false)
		check.Until(t, "the end of an unused session", func() (bool, string) {
			ended, err := two.End(t.Context(), name, "s1", time.Millisecond)
			return ended, fmt.Sprint(err)
		})
		end("s1", 0, false)
		again := sessions.Session{ID: "s3", Value: []byte("v"), Uses: 1 << 20}
		_, _, err := one.Enter(t.Context(), name, again, time.Hour)
		check.Must(t, err)
		if got := entered(t, two, name, ""); got != "v 1048577" {
			t.Error(got)
		}
		end("s3", 0, true)
		if got := entered(t, two, name, "s4"); got != " 0" {
			t.Error(got)
		}
		end("s4", time.Hour, true) // no other replica has used it
	})
}

// TestUpstreamSessionsAtOnce: of replicas that store a session at once, all but one get that of the other, and no two
// the same number.
func TestUpstreamSessionsAtOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		name := sessions.Name{Tenant: "acme", Capability: "files", Sum: "1a"}
		seen := map[string]bool{}
		var mu sync.Mutex
		var all sync.WaitGroup
		const replicas = 8
		for i := range replicas {
			u := open().UpstreamSessions()
			all.Go(func() {
				own := sessions.Session{ID: fmt.Sprint(i), Value: []byte("v")}
				value, use, err := u.Enter(t.Context(), name, own, time.Hour)
				mu.Lock()
				defer mu.Unlock()
				seen[fmt.Sprintf("%s %d", value, use)] = true
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(seen) != replicas || !seen[" 0"] || !seen["v 1"] || !seen["v 7"] {
			t.Errorf("%v", seen)
		}
	})
}

// TestMalformedUpstreamSessions: a malformed session counts as absent, and is counted.
func TestMalformedUpstreamSessions(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		u, p := store.UpstreamSessions(), store.Probe()
		for i, write := range []func(ctx context.Context, r redis.Cmdable, key string) error{
			func(ctx context.Context, r redis.Cmdable, key string) error { return r.Set(ctx, key, "x", 0).Err() },
			func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.HSet(ctx, key, "id", "x").Err()
			},
			func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.HSet(ctx, key, "id", "x", "value", "v", "uses", "1e300").Err()
			},
		} {
			name := sessions.Name{Tenant: "acme", Capability: "files", Sum: fmt.Sprint(i)}
			check.Must(t, p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return write(ctx, r, redisstore.UpstreamSessionKey(u, name))
			}))
			if ended, err := u.End(t.Context(), name, "s1", 0); ended || err != nil {
				t.Errorf("%d: %t, %v", i, ended, err)
			}
			if got := entered(t, u, name, "s1"); got != " 0" {
				t.Errorf("%d: %q", i, got)
			}
			if got := entered(t, u, name, ""); got != "value of s1 1" {
				t.Errorf("%d: %q", i, got)
			}
			if n := store.Stats().Malformed; n != int64(i+1) {
				t.Errorf("%d: %d malformed values", i, n)
			}
		}
	})
}

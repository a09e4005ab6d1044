package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// claims claims a session of the fleet engine-1 for a tenant, and returns the owner, followed by " new" if it
// had none.
func claims(t *testing.T, e *redisstore.EngineSessions, session, tenant string) string {
	t.Helper()
	owner, claimed, err := e.Claim(t.Context(), "engine-1", session, tenant)
	check.Must(t, err)
	if claimed {
		owner += " new"
	}
	return owner
}

func TestEngineSessions(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		e, other := open().EngineSessions(), open().EngineSessions()
		for i, step := range []struct {
			at                    *redisstore.EngineSessions
			session, tenant, want string
		}{
			{e, "s", "acme", "acme new"}, {e, "s", "acme", "acme"}, {other, "s", "globex", "acme"},
			{e, "s", "acme", "acme"},
			{other, "s:{}", "globex", "globex new"}, {e, "s:{}", "acme", "globex"}, {e, "", "acme", "acme new"},
			{e, "t", "te:na}nt", "te:na}nt new"},
		} {
			if got := claims(t, step.at, step.session, step.tenant); got != step.want {
				t.Errorf("step %d: %q, want %q", i, got, step.want)
			}
		}
		if owner, claimed, err := e.Claim(t.Context(), "engine-2", "s", "globex"); owner != "globex" || !claimed ||
			err != nil {
			t.Errorf("another fleet's: %q, %v, %v", owner, claimed, err)
		}

		var many, want []string
		for i := range 1234 {
			many, want = append(many, fmt.Sprint(i)), append(want, "")
		}
		for i, session := range map[int]string{0: "s", 499: "s:{}", 500: "t", 1233: "s"} {
			many[i] = session
			want[i] = map[string]string{"s": "acme", "s:{}": "globex", "t": "te:na}nt"}[session]
		}
		if got, err := other.Owners(t.Context(), "engine-1", many); err != nil || !slices.Equal(got, want) {
			t.Errorf("owners: %q, %v", got, err)
		}
		if got, err := other.Owners(t.Context(), "engine-1", nil); err != nil || len(got) != 0 {
			t.Errorf("of none: %q, %v", got, err)
		}
		key := e.OwnerKey("engine-1", "s")
		check.Must(t, e.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.PExpire(ctx, key, time.Hour).Err()
		}))
		ttl := func() (ttl time.Duration) {
			check.Must(t, e.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) (err error) {
				ttl, err = r.PTTL(ctx, key).Result()
				return err
			}))
			return ttl
		}
		if claims(t, e, "s", "globex"); ttl() > time.Hour {
			t.Error("a tenant that does not own it renews it")
		}
		if claims(t, e, "s", "acme"); ttl() < 89*24*time.Hour {
			t.Errorf("lasts %v", ttl())
		}
	})
}

// TestASessionHasOneOwner: a session has one owner, also after many concurrent claims.
func TestASessionHasOneOwner(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		all := []*redisstore.EngineSessions{open().EngineSessions(), open().EngineSessions()}
		var claimed atomic.Int64
		owners := make([]string, 50)
		atOnce(t, len(owners), func(i int) {
			owner, mine, err := all[i%2].Claim(t.Context(), "engine-1", "s", fmt.Sprint("tenant ", i))
			if mine {
				claimed.Add(1)
			}
			if owners[i] = owner; err != nil || mine != (owner == fmt.Sprint("tenant ", i)) {
				t.Errorf("got %q, %v, %v", owner, mine, err)
			}
		})
		if claimed.Load() != 1 || len(slices.Compact(owners)) != 1 {
			t.Errorf("%d have it: %q", claimed.Load(), owners)
		}
	})
}

// TestAMalformedOwnerOfASession: a malformed owner is no tenant, and the session gets no other owner.
func TestAMalformedOwnerOfASession(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		e := s.EngineSessions()
		check.Must(t, e.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.HSet(ctx, e.OwnerKey("engine-1", "s"), "a", "b").Err()
		}))
		if owner, claimed, err := e.Claim(t.Context(), "engine-1", "s", "acme"); err == nil || claimed {
			t.Errorf("%q, %v; err %+v", owner, claimed, err)
		}
		if got, err := e.Owners(t.Context(), "engine-1", []string{"s"}); err != nil || got[0] != "" ||
			s.Stats().Malformed != 1 {
			t.Errorf("%q, %v, %d malformed", got, err, s.Stats().Malformed)
		}
	})
}

func TestEngineSessionsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := open(t, impatient(server.URL())).EngineSessions()
	server.Kill()
	if _, claimed, err := e.Claim(t.Context(), "engine-1", "s", "acme"); err == nil || claimed {
		t.Errorf("claimed; err %+v; claimed %+v", err, claimed)
	}
	if got, err := e.Owners(t.Context(), "engine-1", []string{"s"}); err == nil || got != nil {
		t.Errorf("%q; err %+v", got, err)
	}
}

// TestEngineSessionsOfADeletedTenant: they get no other owner, since their engine still has them.
func TestEngineSessionsOfADeletedTenant(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, ctx := open(), t.Context()
		e := s.EngineSessions()
		check.Must(t, s.Tenants().CreateTenant(ctx, storetest.Record("acme", "u1")))
		claims(t, e, "s1", "acme")
		claims(t, e, "s2", "globex")
		check.Must(t, s.Tenants().DeleteTenant(ctx, "acme", 0, false))
		check.Must(t, s.Tenants().CreateTenant(ctx, storetest.Record("acme", "u2")))
		if got := claims(t, e, "s1", "acme") + claims(t, e, "s1", "globex") +
			claims(t, e, "s2", "acme"); got != "globex" {
			t.Errorf("sessions of the deleted tenant, for its successor and for another, and another tenant's: %q", got)
		}
		if got, err := e.Owners(ctx, "engine-1", []string{"s1", "s2"}); err != nil ||
			strings.Join(got, ",") != ",globex" {
			t.Errorf("owners: %q, %v", got, err)
		}
	})
}

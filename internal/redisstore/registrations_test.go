package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

func TestRegistrations(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) registry.Leases { return s.Registrations() })
}

// TestRegistrationsHaveTheirFullTimeAgain: time without reads does not count, so a first read ends no lease.
func TestRegistrationsHaveTheirFullTimeAgain(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r, short := open().Registrations(), storetest.Registration("10.0.0.7:1", "l1")
		short.TTL = time.Millisecond
		check.Must(t, r.Register(t.Context(), short, false, 9))
		if got := storetest.Read(t, r, ""); len(got.Live) != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

// Leases do not end while Redis, or all gateways, were unavailable.
func TestRegistrationsOutliveSilence(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := open().Registrations()
		check.Must(t, r.Register(t.Context(), storetest.Registration("10.0.0.7:1", "l1"), false, 9))
		keys := r.Keys()
		err := r.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
			return errors.Join(c.ZAdd(ctx, keys[1], redis.Z{Score: 1, Member: "weather 10.0.0.7:1"}).Err(),
				c.HSet(ctx, keys[3], "swept", "1").Err())
		})
		check.Must(t, err)
		if got := storetest.Read(t, r, ""); len(got.Live) != 1 || len(got.Ended) > 0 {
			t.Errorf("got %+v", got)
		}
		var ends float64
		err = r.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) (err error) {
			ends, err = c.ZScore(ctx, keys[1], "weather 10.0.0.7:1").Result()
			return err
		})
		if err != nil || ends < 1e12 {
			t.Errorf("it ends at %g, %v", ends, err)
		}
	})
}

func TestRegistrationsMalformed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		r := s.Registrations()
		check.Must(t, r.Register(t.Context(), storetest.Registration("10.0.0.7:1", "l1"), false, 9))
		before := storetest.Read(t, r, "")
		keys := r.Keys()
		err := r.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
			return errors.Join(
				c.HSet(ctx, keys[0], "x", "", "weather a:1", "l\n1", "weather b:1", "l\nx\n{}", "weather c:1",
					"l\n1\n[]", "weather d:1", "l\n-1\n{}",
					"weather e:1", "l\n1000\n{\"dialect\":\"klingon\"}", "weather f:1",
					"l\n1000\n{\"pinned\":[\"10.0.0.7\"]}", "weather g:1", "\x00\xff",
					"weather h:1", "l\n1000\n{\"manifest\":\"0\"}").Err(),
				c.HIncrBy(ctx, keys[3], "version", 1).Err(),
				c.ZAdd(ctx, keys[2], redis.Z{Score: 9e15, Member: "nonsense"}).Err())
		})
		check.Must(t, err)
		got := storetest.Read(t, r, before.Version)
		if got.Unchanged || len(got.Live) != 1 || got.Malformed != 9 || len(got.Ended) > 0 {
			t.Errorf("got %+v", got)
		}
		if n := s.Stats().Malformed; n != 9 {
			t.Errorf("%d counted", n)
		}
		// The holder of the address can register it.
		if err := r.Register(t.Context(), storetest.Registration("g:1", "l2"), true, 9); err != nil {
			t.Error(err)
		}
		if got := storetest.Read(t, r, got.Version); len(got.Live) != 2 || got.Malformed != 8 {
			t.Errorf("got %+v", got)
		}
	})
}

// TestRegistrationsAfterAFailover: a change after a failover that has undone another one reaches a replica that
// has read the earlier content.
func TestRegistrationsAfterAFailover(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := open().Registrations()
		check.Must(t, r.Register(t.Context(), storetest.Registration("10.0.0.7:1", "l1"), false, 9))
		keys, first := r.Keys(), storetest.Read(t, r, "").Version
		check.Must(t, r.Register(t.Context(), storetest.Registration("10.0.0.8:1", "l2"), false, 9))
		before := storetest.Read(t, r, "").Version
		check.Must(t, r.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
			_, version, _ := strings.Cut(first, ":")
			return errors.Join(c.HDel(ctx, keys[0], "weather 10.0.0.8:1").Err(),
				c.ZRem(ctx, keys[1], "weather 10.0.0.8:1").Err(), c.HSet(ctx, keys[3], "version", version).Err())
		}))
		check.Must(t, r.Register(t.Context(), storetest.Registration("10.0.0.9:1", "l3"), false, 9))
		got := storetest.Read(t, r, before)
		if got.Unchanged || len(got.Live) != 2 || got.Live[1].Addr != "10.0.0.9:1" {
			t.Errorf("got %+v", got)
		}
	})
}

// TestRegistrationsOfAFullRedis: a Redis that accepts no writes, so that no backend could renew its lease, can
// be read, and ends none.
func TestRegistrationsOfAFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := open(t, redisstore.Config{URL: server.URL(), Timeout: patience}).Registrations()
	check.Must(t, r.Register(t.Context(), storetest.Registration("10.0.0.7:1", "l1"), false, 9))
	expire := func() {
		t.Helper()
		keys := r.Keys()
		check.Must(t, r.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
			return errors.Join(c.ZAdd(ctx, keys[1], redis.Z{Score: 1, Member: "weather 10.0.0.7:1"}).Err(),
				c.HSet(ctx, keys[3], "swept", time.Now().Add(-time.Second).UnixMilli()).Err())
		}))
	}
	expire()
	server.Fill()
	if got := storetest.Read(t, r, ""); len(got.Live) != 1 || len(got.Ended) > 0 {
		t.Errorf("while Redis is full: %+v", got)
	}
	server.Relieve()
	check.Until(t, "the lease to end once Redis takes writes", func() (bool, string) {
		expire()
		got := storetest.Read(t, r, "")
		return len(got.Live) == 0 && len(got.Ended) == 1, fmt.Sprintf("%+v", got)
	})
}

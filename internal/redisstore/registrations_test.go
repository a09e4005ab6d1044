package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

func registration(addr, lease string) *registry.Registration {
	return &registry.Registration{
		Capability: "weather", Addr: addr, Pinned: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:1"),
			netip.MustParseAddrPort("[2001:db8::7]:1")},
		Weight: 5, Zone: "a", Session: "s 1", Tenant: "acme", Dialect: call.Live, MaxConcurrent: 8, TTL: time.Hour,
		Lease: lease,
	}
}

// reading reads, and sorts the result.
func reading(t *testing.T, r *redisstore.Registrations, since string) registry.Reading {
	t.Helper()
	got, err := r.Read(t.Context(), since)
	check.Must(t, err)
	slices.SortFunc(got.Live, func(a, b registry.Registration) int { return strings.Compare(a.Addr, b.Addr) })
	return got
}

func TestRegistrations(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Registrations(), open().Registrations()
		if got := reading(t, a, ""); got.Unchanged || len(got.Live)+len(got.Ended) > 0 {
			t.Errorf("at first: %+v", got)
		}
		first, second := registration("10.0.0.7:1", "l1"), registration("weather-0.svc:1", "l2")
		second.Session, second.Tenant, second.Dialect, second.Weight = "", "", call.Auto, 0
		for _, g := range []*registry.Registration{first, second} {
			check.Must(t, a.Register(t.Context(), g, false, 2))
		}
		if err := a.Register(t.Context(), registration("10.0.0.9:1", "l3"), false, 2); !errors.Is(err,
			registry.ErrFull) {
			t.Error(err)
		}
		got := reading(t, b, "")
		if want := []registry.Registration{*first, *second}; !reflect.DeepEqual(got.Live, want) {
			t.Errorf("got  %+v\nwant %+v", got.Live, want)
		}

		// Renewals are no change; any difference is one.
		if err := b.Register(t.Context(), first, true, 2); err != nil {
			t.Error(err)
		}
		if again := reading(t, a, got.Version); !again.Unchanged || again.Version != got.Version {
			t.Errorf("after a renewal: %+v", again)
		}
		first.Weight = 7
		if err := b.Register(t.Context(), first, true, 2); err != nil {
			t.Error(err)
		}
		if again := reading(t, a, got.Version); again.Unchanged || again.Live[0].Weight != 7 {
			t.Errorf("after a change: %+v", again)
		}

		// The last registration has the lease.
		last := registration("10.0.0.7:1", "l4")
		if err := b.Register(t.Context(), last, false, 2); err != nil {
			t.Error(err)
		}
		if err := a.Register(t.Context(), first, true, 2); !errors.Is(err, registry.ErrSuperseded) {
			t.Error(err)
		}
		if _, err := a.Withdraw(t.Context(), first.Key(), "l1"); !errors.Is(err, registry.ErrSuperseded) {
			t.Error(err)
		}
		if ok, err := a.Withdraw(t.Context(), first.Key(), "l4"); !ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := a.Withdraw(t.Context(), second.Key(), ""); !ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := b.Withdraw(t.Context(), first.Key(), ""); ok || err != nil {
			t.Error(ok, err)
		}
		if got = reading(t, b, ""); len(got.Live) > 0 || !slices.Contains(got.Ended, first.Key()) ||
			!slices.Contains(got.Ended, second.Key()) {
			t.Errorf("after all have gone: %+v", got)
		}
		// A backend can register again after its lease ended.
		if err := a.Register(t.Context(), first, true, 2); err != nil {
			t.Error(err)
		}
		if got = reading(t, b, ""); len(got.Live) != 1 || slices.Contains(got.Ended, first.Key()) {
			t.Errorf("after one came back: %+v", got)
		}
	})
}

func TestRegistrationsEnd(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := open().Registrations()
		short := registration("10.0.0.7:1", "l1")
		short.TTL = time.Millisecond
		long := registration("10.0.0.8:1", "l2")
		for _, g := range []*registry.Registration{short, long} {
			check.Must(t, r.Register(t.Context(), g, false, 9))
		}
		// Time without reads does not count, so the first read gives leases their full time again.
		if got := reading(t, r, ""); len(got.Live) != 2 {
			t.Errorf("%+v", got)
		}
		got := reading(t, r, "")
		check.Until(t, "the end of a lease", func() (bool, string) {
			got = reading(t, r, got.Version)
			return !got.Unchanged && len(got.Live) != 2, fmt.Sprintf("%+v", got)
		})
		if len(got.Live) != 1 || got.Live[0].Addr != long.Addr || !slices.Contains(got.Ended, short.Key()) {
			t.Errorf("%+v", got)
		}
	})
}

// Leases do not end while Redis, or all gateways, were unavailable.
func TestRegistrationsOutliveSilence(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := open().Registrations()
		check.Must(t, r.Register(t.Context(), registration("10.0.0.7:1", "l1"), false, 9))
		keys := r.Keys()
		err := r.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
			return errors.Join(c.ZAdd(ctx, keys[1], redis.Z{Score: 1, Member: "weather 10.0.0.7:1"}).Err(),
				c.HSet(ctx, keys[3], "swept", "1").Err())
		})
		check.Must(t, err)
		if got := reading(t, r, ""); len(got.Live) != 1 || len(got.Ended) > 0 {
			t.Errorf("%+v", got)
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
		check.Must(t, r.Register(t.Context(), registration("10.0.0.7:1", "l1"), false, 9))
		before := reading(t, r, "")
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
		got := reading(t, r, before.Version)
		if got.Unchanged || len(got.Live) != 1 || got.Malformed != 9 || len(got.Ended) > 0 {
			t.Errorf("%+v", got)
		}
		if n := s.Stats().Malformed; n != 9 {
			t.Errorf("%d counted", n)
		}
		// The holder of the address can register it.
		if err := r.Register(t.Context(), registration("g:1", "l2"), true, 9); err != nil {
			t.Error(err)
		}
		if got := reading(t, r, got.Version); len(got.Live) != 2 || got.Malformed != 8 {
			t.Errorf("%+v", got)
		}
	})
}

func TestRegistrationsFollow(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Registrations(), open().Registrations()
		ctx, cancel := context.WithCancel(t.Context())
		notices, ended := make(chan struct{}, 100), make(chan struct{})
		go func() {
			defer close(ended)
			b.Watch(ctx, func() { notices <- struct{}{} })
		}()
		wait := func() {
			t.Helper()
			check.Received(t, notices, "a notice")
		}
		wait() // for the subscription
		check.Must(t, a.Register(t.Context(), registration("10.0.0.7:1", "l1"), false, 9))
		wait()
		if _, err := a.Withdraw(t.Context(), registry.Key{Capability: "weather", Addr: "10.0.0.7:1"}, ""); err != nil {
			t.Fatal(err)
		}
		wait()
		cancel()
		check.Received(t, ended, "the end of the watch")
	})
}

// TestRegistrationsAfterAFailover: a change after a failover that has undone another one is told to a replica that has
// read the content of before.
func TestRegistrationsAfterAFailover(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		r := open().Registrations()
		check.Must(t, r.Register(t.Context(), registration("10.0.0.7:1", "l1"), false, 9))
		keys, first := r.Keys(), reading(t, r, "").Version
		check.Must(t, r.Register(t.Context(), registration("10.0.0.8:1", "l2"), false, 9))
		before := reading(t, r, "").Version
		check.Must(t, r.Do(t.Context(), func(ctx context.Context, c redis.Cmdable) error {
			_, version, _ := strings.Cut(first, ":")
			return errors.Join(c.HDel(ctx, keys[0], "weather 10.0.0.8:1").Err(),
				c.ZRem(ctx, keys[1], "weather 10.0.0.8:1").Err(), c.HSet(ctx, keys[3], "version", version).Err())
		}))
		check.Must(t, r.Register(t.Context(), registration("10.0.0.9:1", "l3"), false, 9))
		if got := reading(t, r, before); got.Unchanged || len(got.Live) != 2 || got.Live[1].Addr != "10.0.0.9:1" {
			t.Errorf("%+v", got)
		}
	})
}

// TestRegistrationsOfAFullRedis: a Redis that takes no writes, so that no backend could renew its lease, can be read,
// and ends none.
func TestRegistrationsOfAFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := open(t, redisstore.Config{URL: server.URL(), Timeout: patience}).Registrations()
	check.Must(t, r.Register(t.Context(), registration("10.0.0.7:1", "l1"), false, 9))
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
	if got := reading(t, r, ""); len(got.Live) != 1 || len(got.Ended) > 0 {
		t.Errorf("while Redis is full: %+v", got)
	}
	server.Relieve()
	check.Until(t, "the lease to end once Redis takes writes", func() (bool, string) {
		expire()
		got := reading(t, r, "")
		return len(got.Live) == 0 && len(got.Ended) == 1, fmt.Sprintf("%+v", got)
	})
}

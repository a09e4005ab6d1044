package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestMembersAreReadWhenTheyChange: a heartbeat reads the list of replicas if one of them came, went, or has another
// digest, also if it is of an earlier version, which only keeps the time and the digest of each.
func TestMembersAreReadWhenTheyChange(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		a, b := s.Health(), s.Health()
		keys := a.MembershipKeys()
		raw := func(f func(ctx context.Context, r redis.Cmdable) error) {
			t.Helper()
			check.Must(t, s.Probe().Do(t.Context(), f))
		}
		heartbeat := func(of *redisstore.HealthStore, id string, probes int) map[string]int {
			t.Helper()
			m, err := of.Heartbeat(t.Context(), health.Heartbeat{Replica: id, Digest: health.Digest{Probes: probes},
				Dead: time.Hour})
			check.Must(t, err)
			found := map[string]int{}
			for _, one := range m.Members {
				if one.Age < 0 || one.Age > time.Hour {
					t.Errorf("the age of %s is %v", one.Replica, one.Age)
				}
				found[one.Replica] = one.Digest.Probes
			}
			return found
		}
		expect := func(when string, want map[string]int) {
			t.Helper()
			if got := heartbeat(a, "a", 1); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, not %v", when, got, want)
			}
		}
		earlier := func(id string, probes int) error {
			line := fmt.Sprintf("%s %d %d 0 0", id, time.Now().UnixMilli(), probes)
			return s.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				r.ZAdd(ctx, keys[0], redis.Z{Score: float64(time.Now().UnixMilli()), Member: id})
				return r.HSet(ctx, keys[1], id, line).Err()
			})
		}

		expect("alone", map[string]int{"a": 1})
		heartbeat(b, "b", 2)
		expect("one came", map[string]int{"a": 1, "b": 2})
		heartbeat(b, "b", 3)
		expect("another digest", map[string]int{"a": 1, "b": 3})
		check.Must(t, earlier("c", 4))
		expect("one of an earlier version came", map[string]int{"a": 1, "b": 3, "c": 4})

		check.Must(t, earlier("c", 5)) // its digest is noticed later, as nothing else has changed
		beats := 1
		for ; heartbeat(a, "a", 1)["c"] != 5 && beats < 20; beats++ {
		}
		if beats != 10 {
			t.Errorf("the list is read after %d heartbeats without a change, not 10", beats)
		}

		raw(func(ctx context.Context, r redis.Cmdable) error { // its last heartbeat was long ago
			return r.ZAdd(ctx, keys[0], redis.Z{Score: 1, Member: "c"}).Err()
		})
		expect("one died", map[string]int{"a": 1, "b": 3})
		check.Must(t, b.Leave(t.Context(), "b"))
		expect("one left", map[string]int{"a": 1})
		check.Must(t, earlier("d", 1))
		raw(func(ctx context.Context, r redis.Cmdable) error {
			r.Del(ctx, keys[3])
			return r.LPush(ctx, keys[3], "x").Err()
		})
		expect("the version was overwritten", map[string]int{"a": 1, "d": 1})
		raw(func(ctx context.Context, r redis.Cmdable) error { return r.Del(ctx, keys...).Err() })
		expect("Redis has lost everything", map[string]int{"a": 1})
	})
}

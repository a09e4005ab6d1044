package redisstore_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/storetest"
)

// TestPermits: the permits of backends are shared by replicas.
func TestPermits(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) storetest.Store {
		p := s.Permits(rand.Text())
		p.SetLifetime(time.Hour)
		return p
	})
}

// needPermits sends demand number seq for permits of a backend with 4 permits.
func needPermits(t *testing.T, p *redisstore.PermitStore, seq uint64, need int) router.Grant {
	t.Helper()
	grants, err := p.Exchange(t.Context(), "weather",
		[]router.Demand{{Addr: "10.0.0.7:1", Limit: 4, Need: need, Seq: seq}})
	check.Must(t, err)
	return grants[0]
}

// TestPermitsAfterTheScriptIsLost: a Redis that lost its scripts, as after a restart, gets them again.
func TestPermitsAfterTheScriptIsLost(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		permits := s.Permits("a")
		for seq := range 3 {
			if got := needPermits(t, permits, uint64(seq)+1, 2); got.Held != 2 {
				t.Errorf("got %+v", got)
			}
			check.Must(t, s.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return r.ScriptFlush(ctx).Err()
			}))
		}
	})
}

// TestMalformedPermits: malformed reports are removed, and counted.
func TestMalformedPermits(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		permits := s.Permits("a")
		check.Must(t, s.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.HSet(ctx, permits.Key("weather", "10.0.0.7:1"), "b", "nonsense", "c", "1 2 3 4 5 6 7", "d",
				"-1 0 0 0 0 0").Err()
		}))
		if got := needPermits(t, permits, 1, 4); got.Held != 4 || s.Stats().Malformed != 3 {
			t.Errorf("%+v, %d malformed values", got, s.Stats().Malformed)
		}
	})
}

package redisstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/ratelimit/storetest"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
)

// TestLimits: replicas share the limits of tenants.
func TestLimits(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) storetest.Store { return s.Limits(rand.Text()) })
}

func TestManyAsksAreOneCommand(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		l := store.Limits("a")
		var asks []ratelimit.Demand
		for i := range ratelimit.MaxDemands {
			asks = append(asks, ratelimit.Demand{Name: ratelimit.Name{Per: "user", Value: fmt.Sprintf("u:%d{}", i)},
				Bounds: tenant.Bounds{CallsPerSecond: 10, Burst: 10, PerDay: 5, Concurrent: 3}, Want: int64(i % 3),
				Need: 1, Seq: int64(i)})
		}
		// Redis knows the script from now on
		if _, err := l.Exchange(context.Background(), ratelimit.Owner{ID: "acme"}, asks[:2]); err != nil {
			t.Fatal(err)
		}
		before := store.Stats().Commands[redisstore.Limits]
		got, err := l.Exchange(context.Background(), ratelimit.Owner{ID: "acme"}, asks)
		if err != nil || store.Stats().Commands[redisstore.Limits] != before+1 {
			t.Fatalf("%v, %d commands", err, store.Stats().Commands[redisstore.Limits]-before)
		}
		for i := range got {
			if got[i].Calls != int64(i%3) || got[i].Permits != 1 {
				t.Errorf("%d: %+v", i, got[i])
			}
		}
	})
}

// TestInventedUsersTakeNoRoom: beyond a number of users all others share one budget.
func TestInventedUsersTakeNoRoom(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		l := open().Limits("a")
		redisstore.SetRoom(l, 3)
		l.SetAhead(storetest.Noon(2027, 5, 5))
		ask := storetest.Asking(t, l)
		var got int64
		for i := range 20 {
			got += ask("acme", ratelimit.Demand{Name: ratelimit.Name{Per: "user", Value: fmt.Sprint(i)},
				Bounds: tenant.Bounds{PerDay: 2}, Want: 5}).Calls
		}
		if got != 3*2+2 {
			t.Errorf("%d calls of 20 users, want those of three and of one for all others", got)
		}
	})
}

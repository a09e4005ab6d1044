package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/router"
)

// TestPermitsOfABurst: concurrent long calls at three replicas get even shares of the permits, with a real Redis. A
// machine that stands still may spoil a burst, so there are several.
func TestPermitsOfABurst(t *testing.T) {
	t.Parallel()
	const bursts, places, calls = 10, 48, 40
	var cfg router.Config
	for i := range bursts {
		cfg.Fleets = append(cfg.Fleets, router.FleetConfig{
			Capability: fmt.Sprint("caps", i), Backends: router.Addrs("10.0.0.7:1"),
			Limit: router.Limit{PerBackend: places, Wait: time.Hour},
		})
	}
	url := redistest.Start(t).URL()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var tables [3]*router.Table
	for i := range tables {
		slots := open(t, redisstore.Config{URL: url}).Permits(fmt.Sprint(i))
		limits := router.NewLimits(router.LimitsConfig{Store: slots, Timeout: patience, Replicas: func() int {
			return len(tables)
		}})
		cfg.Limits = limits
		table, err := router.NewTable(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		router.New(table)
		tables[i] = table
		running.Go(func() { limits.Run(ctx) })
	}
	var got [bursts][len(tables)]atomic.Int64
	sum := func(burst int) (n int64) {
		for i := range tables {
			n += got[burst][i].Load()
		}
		return n
	}
	even := 0
	for burst := range bursts {
		var callers sync.WaitGroup
		for i, table := range tables {
			callers.Go(func() {
				for range calls {
					entered := func(router.PermitResult) bool { got[burst][i].Add(1); return true }
					if w, a := table.Fleet(fmt.Sprint("caps", burst)).AcquirePermit(router.PermitRequest{},
						func() func(router.PermitResult) bool {
							return entered
						}); w == nil {
						entered(a)
					}
				}
			})
		}
		callers.Wait()
		check.Holds(t, "all places to be taken", func() bool { return sum(burst) >= places })
		if is := &got[burst]; is[0].Load() == places/3 && is[1].Load() == places/3 && is[2].Load() == places/3 {
			even++
		}
	}
	for burst := range bursts {
		is := &got[burst]
		t.Logf("%d, %d, %d", is[0].Load(), is[1].Load(), is[2].Load())
		if n := sum(burst); n != places {
			t.Errorf("%d calls at once, of %d", n, places)
		}
	}
	if even == 0 {
		t.Error("no burst had even parts")
	}
}

package redisstore_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/router"
)

// TestPermitsOfABurst: with a real Redis, concurrent long calls at three replicas get even shares of the
// permits at first, and the rest after the soft start. The clock of the soft start stands still until all
// replicas have asked.
func TestPermitsOfABurst(t *testing.T) {
	t.Parallel()
	const places = 48
	bursts := []struct{ calls, first, least [3]int64 }{
		{calls: [3]int64{40, 40, 40}, first: [3]int64{16, 16, 16}, least: [3]int64{16, 16, 16}},
		{calls: [3]int64{40, 40, 4}, first: [3]int64{16, 16, 4}, least: [3]int64{16, 16, 4}},
		{calls: [3]int64{60, 0, 0}, first: [3]int64{16, 0, 0}, least: [3]int64{48, 0, 0}},
	}
	clock := clocktest.New(time.Now())
	cfg := router.Config{Clock: clock.Now}
	for burst := range bursts {
		cfg.Fleets = append(cfg.Fleets, router.FleetConfig{
			Capability: fmt.Sprint("caps", burst), Backends: router.Addrs("10.0.0.7:1"),
			Limit: router.Limit{PerBackend: places, Queue: router.Queue{Wait: time.Hour}},
		})
	}
	tables, exchanges := limitedReplicas(t, cfg)
	got := make([][3]atomic.Int64, len(bursts))
	all := func() (all [][3]int64, sums []int64) {
		for burst := range got {
			var of [3]int64
			for i := range of {
				of[i] = got[burst][i].Load()
			}
			all, sums = append(all, of), append(sums, of[0]+of[1]+of[2])
		}
		return all, sums
	}
	var callers sync.WaitGroup
	for burst, b := range bursts {
		for i, table := range tables {
			callers.Go(func() {
				entered := func(router.PermitResult) bool { got[burst][i].Add(1); return true }
				for range b.calls[i] {
					if w, a := table.Fleet(fmt.Sprint("caps", burst)).AcquirePermit(router.PermitRequest{},
						func() func(router.PermitResult) bool { return entered }); w == nil {
						entered(a)
					}
				}
			})
		}
	}
	callers.Wait()
	check.Until(t, "the first shares", func() (bool, string) {
		is, _ := all()
		even := true
		for burst, b := range bursts {
			even = even && is[burst] == b.first
		}
		return even, fmt.Sprint(is)
	})
	clock.Add(fairshare.SoftStartTime)
	check.Until(t, "all places to be taken", func() (bool, string) {
		is, sums := all()
		taken := true
		for _, sum := range sums {
			taken = taken && sum >= places
		}
		return taken, fmt.Sprint(is)
	})
	exchanges.more(t, len(bursts))
	is, sums := all()
	for burst, b := range bursts {
		if sums[burst] != places {
			t.Errorf("%d calls at once, of %d: %v", sums[burst], places, is[burst])
		}
		for i := range is[burst] {
			if is[burst][i] < b.least[i] {
				t.Errorf("%v calls, want %v at least", is[burst], b.least)
			}
		}
	}
}

// exchanges counts the exchanges of each capability, of all replicas.
type exchanges struct {
	mu  sync.Mutex
	all map[string]int
}

// more waits for a few more exchanges of each burst's capability, in which its replicas ask for permits again.
func (e *exchanges) more(t *testing.T, bursts int) {
	t.Helper()
	look := func() map[string]int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return maps.Clone(e.all)
	}
	before := look()
	check.Until(t, "more exchanges of each burst", func() (bool, string) {
		now, enough := look(), true
		for burst := range bursts {
			name := fmt.Sprint("caps", burst)
			enough = enough && now[name] >= before[name]+6
		}
		return enough, fmt.Sprint(before, now)
	})
}

// counted is a store that counts its exchanges.
type counted struct {
	*redisstore.PermitStore
	exchanges *exchanges
}

func (c counted) Exchange(ctx context.Context, capability string, wants []router.Demand) ([]router.Grant, error) {
	grants, err := c.PermitStore.Exchange(ctx, capability, wants)
	c.exchanges.mu.Lock()
	defer c.exchanges.mu.Unlock()
	c.exchanges.all[capability]++
	return grants, err
}

// limitedReplicas starts the limits of three replicas that know each other, each with its own connections to one Redis.
func limitedReplicas(t *testing.T, cfg router.Config) (tables [3]*router.Table, counts *exchanges) {
	t.Helper()
	url := redistest.Start(t).URL()
	counts = &exchanges{all: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		check.Ended(t, &running, "the background work to end")
	})
	var knows [len(tables)]chan struct{}
	for i := range tables {
		var looks atomic.Int64
		knows[i] = make(chan struct{})
		permits := open(t, redisstore.Config{URL: url}).Permits(fmt.Sprint(i))
		permits.SetLifetime(time.Hour)
		limits := router.NewLimits(router.LimitsConfig{
			Store:   counted{permits, counts},
			Timeout: patience,
			Replicas: func() int {
				if looks.Add(1) == 2 { // the first number is known by now
					close(knows[i])
				}
				return len(tables)
			},
		})
		cfg.Limits = limits
		table, err := router.NewTable(cfg, nil)
		check.Must(t, err)
		router.New(table)
		tables[i] = table
		running.Go(func() { limits.Run(ctx) })
	}
	for i := range knows {
		check.Received(t, knows[i], "a replica to know of the others")
	}
	return tables, counts
}

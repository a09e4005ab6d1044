package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// BenchmarkHealth measures the CPU time of a redis-server's thread for the commands of health, as redis-µs/op;
// bench/fleetsim uses these figures.
func BenchmarkHealth(b *testing.B) {
	b.Run("heartbeat of one of 1", func(b *testing.B) { benchBeat(b, 1) })
	b.Run("heartbeat of one of 200", func(b *testing.B) { benchBeat(b, 200) })
	b.Run("heartbeat of one of 1000", func(b *testing.B) { benchBeat(b, 1000) })
	b.Run("100 posts of 1 at once to 200", func(b *testing.B) { benchPost(b, 100, 1, 200) })
	for _, watchers := range []int{0, 200, 1000} {
		for _, votes := range []int{1, 101} {
			b.Run(fmt.Sprintf("post of %d to %d", votes, watchers), func(b *testing.B) {
				benchPost(b, 1, votes, watchers)
			})
		}
	}
	b.Run("version of a page", func(b *testing.B) { benchPage(b, 10, false) })
	b.Run("page of 10", func(b *testing.B) { benchPage(b, 10, true) })
	b.Run("page of 1500", func(b *testing.B) { benchPage(b, 1500, true) })
}

// onServer runs do b.N times, and reports the time of the server's thread.
func onServer(b *testing.B, prepare func(open func() *redisstore.HealthStore) (do func(i int) error), settled func()) {
	b.Helper()
	storeOnServer(b, func(open func() *redisstore.Store) func(int) error {
		return prepare(func() *redisstore.HealthStore { return open().Health() })
	}, settled)
}

// storeOnServer is onServer for features besides health.
func storeOnServer(b *testing.B, prepare func(open func() *redisstore.Store) (do func(i int) error), settled func()) {
	b.Helper()
	server := redistest.Start(b)
	do := prepare(func() *redisstore.Store {
		s, err := redisstore.Open(patient(redisstore.Config{URL: server.URL()}))
		check.Must(b, err)
		b.Cleanup(s.Close)
		return s
	})
	before := threadTime(b, server)
	for i := 0; b.Loop(); i++ {
		check.Must(b, do(i))
	}
	settled()
	b.ReportMetric(float64((threadTime(b, server)-before).Microseconds())/float64(b.N), "redis-µs/op")
}

// threadTime is the CPU time of the server's main thread.
func threadTime(b *testing.B, s *redistest.Server) time.Duration {
	b.Helper()
	total := 0.0
	info, _ := s.Do("INFO", "cpu").(string)
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if strings.HasSuffix(name, "_main_thread") {
			seconds, err := strconv.ParseFloat(value, 64)
			check.Must(b, err)
			total += seconds
		}
	}
	return time.Duration(total * float64(time.Second))
}

func nothing() {}

func benchBeat(b *testing.B, replicas int) {
	onServer(b, func(open func() *redisstore.HealthStore) func(int) error {
		board := open()
		heartbeat := func(i int) error {
			_, err := board.Heartbeat(b.Context(), health.Heartbeat{
				Replica: fmt.Sprintf("gateway-%d", i%replicas), Digest: health.Digest{Probes: 500, Sum: 1 << 60},
				Dead: time.Hour,
			})
			return err
		}
		for i := range replicas {
			check.Must(b, heartbeat(i))
		}
		return heartbeat
	}, nothing)
}

// votes returns observations of n backends of one shard.
func votes(n int) []health.Report {
	var reports []health.Report
	for i := range n {
		reports = append(reports, health.Report{
			Key: health.Key{Capability: "capability-1000", Addr: fmt.Sprintf("10.0.%d.%d:50051", i>>8, i&255)},
			Observation: &health.Observation{
				State: health.Down, Refused: true, Episode: 1 << 30, By: "gateway-100",
				Reason: "Unavailable: connection refused",
			},
		})
	}
	return reports
}

// benchPost measures publications with their notices. These are paced, so a notice may have the changes of several
// publications.
func benchPost(b *testing.B, atOnce, n, watchers int) {
	seen := make([]atomic.Uint64, watchers) // the version of the last notice that each watcher received
	var board *redisstore.HealthStore
	onServer(b, func(open func() *redisstore.HealthStore) func(int) error {
		var ready, watching sync.WaitGroup
		ctx, stop := context.WithCancel(context.Background())
		b.Cleanup(watching.Wait)
		b.Cleanup(stop)
		for i := range watchers {
			board := open()
			ready.Add(1)
			watching.Go(func() {
				_ = board.Watch(ctx, func(n health.Event) {
					if n.Subscribed {
						ready.Done()
						return
					}
					seen[i].Store(n.Version)
				})
			})
		}
		ready.Wait()
		board = open()
		reports := votes(n)
		return func(int) error {
			errs := make(chan error, atOnce)
			for range atOnce {
				go func() {
					_, err := board.Publish(b.Context(), reports)
					errs <- err
				}()
			}
			var err error
			for range atOnce {
				err = errors.Join(err, <-errs)
			}
			return err
		}
	}, func() { receive(b, board, seen) })
}

// receive waits until all watchers have received the last notice. Each read sends a notice that has waited long enough.
func receive(b *testing.B, board *redisstore.HealthStore, seen []atomic.Uint64) {
	b.Helper()
	for {
		shard, err := board.Shard(b.Context(), health.ShardOf("capability-1000"), false)
		check.Must(b, err)
		late := false
		for i := range seen {
			late = late || seen[i].Load() < shard.Version
		}
		if shard.Wait == 0 && !late {
			return
		}
		<-time.After(max(shard.Wait, time.Millisecond))
	}
}

func benchPage(b *testing.B, n int, whole bool) {
	onServer(b, func(open func() *redisstore.HealthStore) func(int) error {
		board := open()
		_, err := board.Publish(b.Context(), votes(n))
		check.Must(b, err)
		page := health.ShardOf("capability-1000")
		return func(int) error {
			_, err := board.Shard(b.Context(), page, whole)
			return err
		}
	}, nothing)
}

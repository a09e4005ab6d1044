package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/redisstore"
)

// The timing of a mass failure at a real redis-server, as in the simulation.
const (
	firstDeath  = time.Second            // until the first probe finds a backend down
	lastDeath   = 7 * time.Second        // until the last one does
	maxPublish  = 2 * time.Second        // between two publications of a replica
	publishEach = 250 * time.Microsecond // of that, for each replica, and each changed shard and one more
)

// failure publishes what replicas find out in a mass failure: each dead backend at one replica and then, when the
// notice has arrived, at another one. Followers discard the notices, except for one.
type failure struct {
	m        *measurement
	replicas []*publisher
	received atomic.Int64 // bytes, by all followers
	failed   atomic.Int64 // publications
	versions [health.Shards]atomic.Uint64
	dead     int
	known    chan time.Time // when the notice of a confirmation arrived, for each dead backend
}

// publisher publishes the observations of one replica.
type publisher struct {
	f       *failure
	store   *redisstore.HealthStore
	mu      sync.Mutex
	reports []health.Report
	wake    chan struct{}
}

// massFailure reports the use of Redis while some of the backends die, and how long their deaths take to be known.
func (m *measurement) massFailure(out io.Writer, dead int) {
	f := &failure{m: m, dead: dead, known: make(chan time.Time, dead)}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for range m.replicas[1:] {
		f.follow(ctx, &running)
	}
	for _, r := range m.replicas {
		f.replicas = append(f.replicas, &publisher{f: f, store: r.store.Health(), wake: make(chan struct{}, 1)})
	}
	for i := range 2 * len(m.replicas) { // afterwards, all know their number
		n := i % len(m.replicas)
		must(f.replicas[n].store.Heartbeat(ctx, health.Heartbeat{Replica: m.replicas[n].id, Dead: time.Hour}))
	}
	ready := make(chan struct{})
	running.Go(func() {
		_ = m.replicas[0].store.Health().Watch(ctx, func(e health.Event) { f.onEvent(e, ready) })
	})
	<-ready
	time.Sleep(settle / 5)
	m.server.Do("SLOWLOG", "RESET")
	before, commands, began := m.threadTime(), m.commands(), time.Now()
	busiest := m.everySecond(ctx, &running)
	for _, p := range f.replicas {
		running.Go(func() { p.run(ctx) })
	}
	for i := range dead {
		at := firstDeath + time.Duration(i)*(lastDeath-firstDeath)/time.Duration(dead)
		time.Sleep(time.Until(began.Add(at)))
		f.replicas[rand.N(len(f.replicas))].add(f.report(i, health.Primary))
	}
	var half time.Duration
	for i := range dead {
		at := <-f.known
		if i == dead/2 {
			half = at.Sub(began)
		}
	}
	all := time.Since(began)
	used := m.threadTime() - before
	fmt.Fprintf(out, "%d backends die, %d replicas: Redis is busy for %s of %s, %.0f%%, and %.0f%% of the busiest "+
		"second; half of the deaths are known after %s; %d commands, the longest %s; %d publications fail; "+
		"%s to each replica\n",
		dead, len(m.replicas), short(used), short(all), 100*used.Seconds()/all.Seconds(), 100*busiest(), short(half),
		m.commands()-commands, m.longest(), f.failed.Load(),
		size(float64(f.received.Load())/float64(len(m.replicas))/all.Seconds()))
}

// longest returns the duration of the longest command among the latest ones of more than 10 ms.
func (m *measurement) longest() (most time.Duration) {
	entries, _ := m.server.Do("SLOWLOG", "GET", "128").([]any)
	for _, e := range entries {
		if fields, ok := e.([]any); ok && len(fields) > 2 {
			micros, _ := fields[2].(int64)
			most = max(most, time.Duration(micros)*time.Microsecond)
		}
	}
	return most
}

// everySecond returns a function that returns the largest share of a second for which Redis was busy until then.
func (m *measurement) everySecond(ctx context.Context, running *sync.WaitGroup) func() float64 {
	var mu sync.Mutex
	var most float64
	running.Go(func() {
		last, at := m.threadTime(), time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			used, now := m.threadTime(), time.Now()
			mu.Lock()
			most = max(most, (used-last).Seconds()/now.Sub(at).Seconds())
			mu.Unlock()
			last, at = used, now
		}
	})
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}

// follow subscribes to the notices, and discards them.
func (f *failure) follow(ctx context.Context, running *sync.WaitGroup) {
	c := must(net.Dial("tcp", f.m.server.URL()[len("redis://"):]))
	context.AfterFunc(ctx, func() { _ = c.Close() })
	must(fmt.Fprintf(c, "SUBSCRIBE cg:health\r\n"))
	running.Go(func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := c.Read(buffer)
			if err != nil {
				return // ctx has ended
			}
			f.received.Add(int64(n))
		}
	})
}

func (f *failure) report(i int, role health.Role) health.Report {
	return health.Report{
		Key: health.Key{Capability: fmt.Sprintf("capability-%d", i/3), Addr: fmt.Sprintf("10.%d.%d.%d:%d", i>>16,
			i>>8&255, i&255, 50000+i%3), Role: role},
		Observation: &health.Observation{State: health.Down, Refused: true, Dialect: 2, Episode: rand.Uint32(),
			By: fmt.Sprintf("gateway-%d", rand.N(len(f.replicas))), Reason: "Unavailable: connection refused"},
	}
}

// onEvent takes a notice: another replica confirms each new death.
func (f *failure) onEvent(e health.Event, ready chan struct{}) {
	if e.Subscribed {
		close(ready)
		return
	}
	f.versions[e.Shard].Store(e.Version)
	for _, entry := range e.Entries {
		if entry.Role == health.Secondary {
			f.known <- time.Now()
			continue
		}
		entry.Role = health.Secondary
		f.replicas[rand.N(len(f.replicas))].add(health.Report{Key: entry.Key, Observation: entry.Observation})
	}
}

func (p *publisher) add(more ...health.Report) {
	p.mu.Lock()
	p.reports = append(p.reports, more...)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run publishes as health.Replica does.
func (p *publisher) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		p.mu.Lock()
		reports := p.reports
		p.reports = nil
		p.mu.Unlock()
		if len(reports) == 0 {
			continue
		}
		shards := map[int]struct{}{}
		for _, r := range reports {
			shards[health.ShardOf(r.Capability)] = struct{}{}
		}
		waiting, err := p.store.Publish(ctx, reports)
		if ctx.Err() != nil {
			return
		}
		wait := min(time.Duration(len(p.f.replicas)*(len(shards)+1))*publishEach, maxPublish)
		if err != nil {
			p.f.failed.Add(1)
			p.mu.Lock()
			p.reports = append(reports, p.reports...)
			p.mu.Unlock()
			wait = maxPublish
		}
		for _, w := range waiting {
			time.AfterFunc(w.Wait, func() { p.check(ctx, w) })
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if err != nil {
			p.add()
		}
	}
}

// check reads the version of a shard whose notice is due.
func (p *publisher) check(ctx context.Context, w health.Waiting) {
	if ctx.Err() != nil || p.f.versions[w.Shard].Load() > w.Version {
		return
	}
	got, err := p.store.Shard(ctx, w.Shard, false)
	if err == nil && got.Wait > 0 {
		time.AfterFunc(got.Wait, func() { p.check(ctx, health.Waiting{Shard: w.Shard, Version: got.Version}) })
	}
}

// Package storetest is a health.Membership and a health.Store in memory, which can be made to
// fail as a real store does: silent, slow, failing, empty. It is for tests.
package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/health"
)

// Store is a membership and an observation store in memory.
type Store struct {
	now func() time.Time

	mu        sync.Mutex
	epoch     int
	members   map[string]heartbeat
	shards    [health.Shards]shard
	watchers  map[*watcher]struct{}
	fault     Fault
	pace      time.Duration
	publishes int
	read      int
	reports   int
}

type heartbeat struct {
	at     time.Time
	digest health.Digest
}

type shard struct {
	version      uint64
	observations map[health.Key]*health.Observation
	waiting      []health.Key // changes since the last notice
	noticed      time.Time    // time of the last notice
}

type watcher struct {
	handle func(health.Event)
	lost   func()
}

// Fault is a failure of a Store.
type Fault struct {
	Err    error         // returned by every command and every Watch
	Silent bool          // commands get no reply, watchers no events
	Delay  time.Duration // before each command runs
}

// New returns an empty Store that uses the clock now.
func New(now func() time.Time) *Store {
	return &Store{now: now, members: map[string]heartbeat{}, watchers: map[*watcher]struct{}{}}
}

// Break injects f until the next Break. Watchers are disconnected if f has an Err.
func (b *Store) Break(f Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
	if f.Err != nil {
		b.drop()
	}
}

// Pace sets the least time between two notices of a shard; default 0.
func (b *Store) Pace(least time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pace = least
}

// Disconnect disconnects all watchers.
func (b *Store) Disconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
}

// Wipe restarts the store with no content.
func (b *Store) Wipe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch++
	b.members = map[string]heartbeat{}
	b.shards = [health.Shards]shard{}
	b.drop()
}

// Copy copies the content, as a replica of a store does. Calling promote fails over to the copy: the store forgets all
// writes since then.
func (b *Store) Copy() (promote func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	epoch, members, shards := b.epoch, maps.Clone(b.members), b.shards
	for n := range shards {
		shards[n].observations = maps.Clone(shards[n].observations)
		shards[n].waiting = slices.Clone(shards[n].waiting)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.epoch, b.members, b.shards = epoch, members, shards
		b.drop()
	}
}

// drop disconnects all watchers. The caller holds mu.
func (b *Store) drop() {
	for f := range b.watchers {
		f.lost()
		delete(b.watchers, f)
	}
}

// Reports returns the number of publish commands, and of the reports in them.
func (b *Store) Reports() (posts, reports int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.publishes, b.reports
}

// EntriesRead returns the number of entries that all shard reads together returned.
func (b *Store) EntriesRead() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

// Observations returns the stored observations of a backend.
func (b *Store) Observations(capability, addr string) (first, second *health.Observation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	votes := b.shards[health.ShardOf(capability)].observations
	k := health.Key{Capability: capability, Addr: addr}
	first = votes[k]
	k.Role = health.Secondary
	return first, votes[k]
}

// inject blocks or fails as the injected fault says.
func (b *Store) inject(ctx context.Context) error {
	b.mu.Lock()
	f := b.fault
	b.mu.Unlock()
	if f.Silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.Delay > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.Delay):
		}
	}
	return f.Err
}

// Heartbeat implements health.Membership.
func (b *Store) Heartbeat(ctx context.Context, in health.Heartbeat) (health.Members, error) {
	if err := b.inject(ctx); err != nil {
		return health.Members{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.members[in.Replica] = heartbeat{at: now, digest: in.Digest}
	m := health.Members{Epoch: fmt.Sprint(b.epoch), Now: now.UnixMilli()}
	for id, heartbeat := range b.members {
		if age := now.Sub(heartbeat.at); age <= in.Dead {
			m.Members = append(m.Members, health.Member{Replica: id, Age: age, Digest: heartbeat.digest})
		} else {
			delete(b.members, id)
		}
	}
	return m, nil
}

// Leave implements health.Membership.
func (b *Store) Leave(ctx context.Context, replica string) error {
	if err := b.inject(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.members, replica)
	b.send(health.Event{Left: replica})
	return nil
}

// Publish implements health.Store.
func (b *Store) Publish(ctx context.Context, reports []health.Report) ([]health.Waiting, error) {
	if err := b.inject(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.publishes++
	b.reports += len(reports)
	changed := map[int]bool{}
	for _, r := range reports {
		n := health.ShardOf(r.Capability)
		p := &b.shards[n]
		if p.observations == nil {
			p.observations = map[health.Key]*health.Observation{}
		}
		if r.Observation == nil {
			delete(p.observations, r.Key)
		} else {
			v := *r.Observation
			v.Written, v.Since = now.UnixMilli(), now.Add(-r.Age).UnixMilli()
			p.observations[r.Key] = &v
		}
		if !slices.Contains(p.waiting, r.Key) {
			p.waiting = append(p.waiting, r.Key)
		}
		changed[n] = true
	}
	var waiting []health.Waiting
	for _, n := range slices.Sorted(maps.Keys(changed)) {
		if wait := b.notify(n); wait > 0 {
			waiting = append(waiting, health.Waiting{Shard: n, Version: b.shards[n].version, Wait: wait})
		}
	}
	return waiting, nil
}

// notify sends the notice of a shard, or returns the time for which it waits. The caller holds mu.
func (b *Store) notify(n int) (wait time.Duration) {
	p, now := &b.shards[n], b.now()
	if len(p.waiting) == 0 {
		return 0
	}
	if wait = b.pace - now.Sub(p.noticed); wait > 0 && p.version != 0 {
		return wait
	}
	event := health.Event{Shard: n, Version: max(p.version+1, uint64(now.UnixMicro())), Previous: p.version}
	for _, k := range p.waiting {
		event.Entries = append(event.Entries, health.Entry{Key: k, Observation: p.observations[k]})
	}
	p.version, p.waiting, p.noticed = event.Version, nil, now
	b.send(event)
	return 0
}

// send sends an event to all watchers. The caller holds mu.
func (b *Store) send(n health.Event) {
	if b.fault.Silent {
		return
	}
	for f := range b.watchers {
		f.handle(n)
	}
}

// Shard implements health.Store.
func (b *Store) Shard(ctx context.Context, n int, whole bool) (health.Shard, error) {
	if err := b.inject(ctx); err != nil {
		return health.Shard{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.shards[n]
	wait := b.notify(n)
	got := health.Shard{Version: p.version, Now: b.now().UnixMilli(), Wait: wait}
	if whole {
		for k, v := range p.observations {
			got.Entries = append(got.Entries, health.Entry{Key: k, Observation: v})
		}
	}
	slices.SortFunc(got.Entries, func(x, y health.Entry) int {
		return cmp.Or(strings.Compare(x.Capability, y.Capability), strings.Compare(x.Addr, y.Addr),
			cmp.Compare(x.Role, y.Role))
	})
	b.read += len(got.Entries)
	return got, nil
}

// subscribe waits as enter does, for at most 5 s.
func (b *Store) subscribe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return b.inject(ctx)
}

// Follow calls handle with each change until stop, and lost when the store disconnects the watcher. Both must not
// block, and must not use the store.
func (b *Store) Follow(handle func(health.Event), lost func()) (stop func()) {
	f := &watcher{handle, lost}
	handle(health.Event{Subscribed: true})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers[f] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, f)
	}
}

// Watch implements health.Store.
func (b *Store) Watch(ctx context.Context, tell func(health.Event)) error {
	if err := b.subscribe(ctx); err != nil {
		return err
	}
	queue, lost := make(chan health.Event, 1<<16), make(chan struct{})
	stop := b.Follow(func(n health.Event) { queue <- n }, func() { close(lost) })
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			return context.Canceled
		case n := <-queue:
			tell(n)
		}
	}
}

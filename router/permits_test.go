package router_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/storetest"
)

// board is the shared store of these tests: a small working store of permits.
type board struct {
	mu          sync.Mutex
	entries     map[string]map[string]*entry // by capability and address, by replica
	listeners   map[string]func(string)
	unavailable bool
	told        bool          // replicas know when it is unavailable
	slow        time.Duration // that it takes for an answer
	deaf        bool          // notices are lost
	exchanges   int
	wants       int // of all exchanges
}

type entry struct {
	held, unmet       int
	since, said, ends time.Time
	seq               uint64
}

func newBoard() *board {
	return &board{entries: map[string]map[string]*entry{}, listeners: map[string]func(string){}}
}

// replica is one replica's view of the board.
type replica struct {
	*board
	name     string
	dead     bool          // all messages are lost
	lifetime time.Duration // of its permits and its turn after a report; 0: 5 s, and 500 ms
}

var (
	errUnavailable = errors.New("unavailable")
	errOvertaken   = errors.New("overtaken")
)

// TestTheBoardKeepsTheContract: the fake is a store of permits like any other.
func TestTheBoardKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().RunReplicas(t, func() func() storetest.Store {
		b, replicas := newBoard(), 0
		return func() storetest.Store {
			replicas++
			return &replica{board: b, name: fmt.Sprint(replicas), lifetime: time.Hour}
		}
	})
}

// SetLifetime implements storetest.Store.
func (r *replica) SetLifetime(d time.Duration) { r.lifetime = d }

func (r *replica) Exchange(ctx context.Context, capability string, wants []router.Demand) ([]router.Grant, error) {
	r.mu.Lock()
	takes := max(r.slow, time.Millisecond) // there and back
	r.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unavailable || r.dead {
		return nil, errUnavailable
	}
	r.exchanges++
	r.wants += len(wants)
	var grants []router.Grant
	for _, w := range wants {
		g, news, err := r.grant(capability+" "+w.Addr, w)
		if err != nil {
			return nil, err
		}
		grants = append(grants, g)
		for name, changed := range r.listeners {
			if news && name != r.name && !r.deaf {
				go changed(capability)
			}
		}
	}
	return grants, nil
}

func (r *replica) grant(key string, w router.Demand) (got router.Grant, news bool, err error) {
	now, all := time.Now(), r.entries[key]
	if all == nil {
		all = map[string]*entry{}
		r.entries[key] = all
	}
	lifetime, turn := 5*time.Second, 500*time.Millisecond
	if r.lifetime > 0 {
		lifetime, turn = r.lifetime, r.lifetime
	}
	mine := all[r.name]
	switch {
	case mine == nil || !mine.ends.After(now):
		mine = &entry{}
	case mine.seq >= w.Seq:
		return got, false, errOvertaken
	}
	since := mine.since
	if mine.unmet == 0 {
		since = now
	}
	keep := max(w.Used, min(w.Retain, mine.held))
	w.Retain, w.Spare = keep, w.Spare+w.Retain-keep
	taken, waiting, ahead, replicas := 0, 0, 0, 1
	for name, e := range all {
		if name == r.name {
			continue
		}
		if !e.ends.After(now) {
			delete(all, name)
			continue
		}
		replicas++
		taken += e.held
		if e.unmet > 0 && e.said.Add(turn).After(now) {
			waiting++
			if e.since.Before(since) || e.since.Equal(since) && name < r.name {
				ahead++
			}
		}
	}
	free := max(w.Limit-taken-w.Retain, 0)
	more := min(w.Need, max(free-ahead, 0))
	next := &entry{
		held: w.Retain + more, unmet: w.Need - more, since: since, said: now, ends: now.Add(lifetime), seq: w.Seq,
	}
	if waiting == 0 {
		next.held += min(w.Spare, free-more)
	}
	if more > 0 {
		next.since = now
	}
	if all[r.name] = next; next.held+next.unmet == 0 {
		delete(all, r.name)
	}
	news = next.unmet > 0 && mine.unmet == 0 || next.held < mine.held && waiting > 0
	return router.Grant{Held: next.held, Waiting: waiting, Replicas: replicas}, news, nil
}

func (r *replica) Listen(ctx context.Context, changed func(string)) {
	r.mu.Lock()
	r.listeners[r.name] = changed
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	delete(r.listeners, r.name)
	r.mu.Unlock()
}

func (r *replica) Unavailable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unavailable && r.told
}

// die disconnects a replica.
func (r *replica) die() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
	delete(r.listeners, r.name)
}

// holders returns the permits at a backend by replica.
func (b *board) holders(addr string) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := map[string]int{}
	for name, e := range b.entries["weather "+addr] {
		if e.held > 0 && e.ends.After(time.Now()) {
			got[name] = e.held
		}
	}
	return got
}

// traffic returns the numbers of exchanges and of their demands.
func (b *board) traffic() (exchanges, wants int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exchanges, b.wants
}

func (b *board) set(f func(*board)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// concurrency counts the calls at backends.
type concurrency struct {
	mu   sync.Mutex
	now  map[string]int
	most map[string]int
	past []string // tenants, in the order of their calls' arrival
}

func (c *concurrency) enter(addr, tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		c.now, c.most = map[string]int{}, map[string]int{}
	}
	c.now[addr]++
	c.most[addr] = max(c.most[addr], c.now[addr])
	c.past = append(c.past, tenant)
}

func (c *concurrency) leave(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[addr]--
}

func (c *concurrency) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 0
	for _, n := range c.most {
		most = max(most, n)
	}
	return most
}

func (c *concurrency) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.past)
}

func (c *concurrency) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most, c.past = map[string]int{}, nil
}

package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/health"
)

// healthFeed is a replica's subscription to the events of the store.
type healthFeed struct {
	stop   func()
	lost   bool
	queue  []health.Event // in flight
	cancel func()         // cancels the arrival of the first event; nil if there is none
	last   *health.Event  // the last one that arrived
}

// subscribe watches the store, as Prober.follow does. wait is the time until the next attempt.
func (l *healthLife) subscribe(wait time.Duration) {
	again := func() { l.after(wait, " tries to watch again", func() { l.subscribe(min(2*wait, 2*time.Second)) }) }
	l.expect(" watches the store", func() bool { return l.cut || l.p.silent }, func() {
		if l.p.refusing {
			again()
			return
		}
		f := &healthFeed{}
		l.feed = f
		f.stop = l.p.store.Follow(func(n health.Event) {
			f.queue = append(f.queue, n)
			f.next(l)
		}, func() { f.lose(l) })
	})
}

// next delivers the first event.
func (f *healthFeed) next(l *healthLife) {
	if f.cancel != nil || f.lost || len(f.queue) == 0 {
		return
	}
	n := f.queue[0]
	f.cancel = l.expect(fmt.Sprintf(" ← event %d:%d%s", n.Shard, n.Version, n.Left),
		func() bool { return l.cut || l.p.silent }, func() {
			f.cancel, f.queue, f.last = nil, f.queue[1:], &n
			f.next(l)
			l.core.OnEvent(l.now(), n)
			l.touched()
		})
}

// lose ends the subscription. Events in flight are lost.
func (f *healthFeed) lose(l *healthLife) {
	if f == nil || f.lost {
		return
	}
	f.lost = true
	if f.cancel != nil {
		f.cancel()
	}
	l.after(200*time.Millisecond, " tries to watch again", func() {
		f.stop()
		l.subscribe(400 * time.Millisecond)
	})
}

// miss drops an event, which a subscription should not.
func (f *healthFeed) miss() {
	if f != nil && len(f.queue) > 1 {
		f.queue = slices.Delete(f.queue, 1, 2)
	}
}

// repeat delivers the last event again.
func (f *healthFeed) repeat(l *healthLife) {
	if f != nil && f.last != nil && !f.lost {
		f.queue = append(f.queue, *f.last)
		f.next(l)
	}
}

// noticeLoss ends the subscription of a replica that has no connection to the store for some seconds.
func (l *healthLife) noticeLoss() {
	l.after(3*time.Second, " notices whether its watch is lost", func() {
		if l.cut {
			l.feed.lose(l)
		}
	})
}

// describe formats an event, in a fixed order.
func describe(reports []health.Report) string {
	all := make([]string, len(reports))
	for i, r := range reports {
		state := "removed"
		if r.Observation != nil {
			state = r.Observation.State.String()
		}
		all[i] = fmt.Sprintf("%s %s %d", r.Addr, state, r.Role)
	}
	slices.Sort(all)
	return "publish " + strings.Join(all, ", ")
}

// canceller holds the functions that cancel the pending events of a life. Timers and the driver use it.
type canceller struct {
	mu  sync.Mutex
	all map[*func()]struct{}
}

func (c *canceller) add(cancel *func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*func()]struct{}{}
	}
	c.all[cancel] = struct{}{}
}

func (c *canceller) remove(cancel *func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, cancel)
}

// cancel cancels all.
func (c *canceller) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel := range c.all {
		(*cancel)()
	}
}

package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// asker sends the Demands of one replica.
type asker struct {
	t     *testing.T
	slots *redisstore.PermitStore
	seq   uint64
}

func (a *asker) ask(want router.Demand) router.Grant {
	a.t.Helper()
	a.seq++
	want.Seq, want.Addr = a.seq, "10.0.0.7:1"
	if want.Limit == 0 {
		want.Limit = 4
	}
	grants, err := a.slots.Exchange(a.t.Context(), "weather", []router.Demand{want})
	check.Must(a.t, err)
	return grants[0]
}

func TestSlots(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a := &asker{t: t, slots: open().Permits("a").Lasting(time.Hour)}
		b := &asker{t: t, slots: open().Permits("b").Lasting(time.Hour)}
		for i, step := range []struct {
			who  *asker
			want router.Demand
			get  router.Grant
		}{
			{a, router.Demand{Need: 1, Spare: 2}, router.Grant{Held: 3, Replicas: 1}},
			{b, router.Demand{Need: 1, Spare: 5}, router.Grant{Held: 1, Replicas: 2}},  // the last permit
			{b, router.Demand{Retain: 1, Need: 2}, router.Grant{Held: 1, Replicas: 2}}, // now b waits
			{a, router.Demand{Retain: 3, Spare: 1}, router.Grant{Held: 3, Waiting: 1, Replicas: 2}},
			{a, router.Demand{Retain: 2, Need: 1}, router.Grant{Held: 2, Waiting: 1, Replicas: 2}}, // b came first
			{b, router.Demand{Retain: 1, Need: 2}, router.Grant{Held: 2, Waiting: 1, Replicas: 2}}, // and waits anew
			{b, router.Demand{Retain: 1, Need: 2}, router.Grant{Held: 1, Waiting: 1, Replicas: 2}}, // behind a
			{a, router.Demand{Retain: 2, Need: 1}, router.Grant{Held: 3, Waiting: 1, Replicas: 2}},
			{b, router.Demand{}, router.Grant{Held: 0, Waiting: 0, Replicas: 2}},
			{a, router.Demand{Retain: 3, Limit: 2}, router.Grant{Held: 3, Replicas: 1}}, // retained permits stay
			{b, router.Demand{Need: 1, Limit: 2}, router.Grant{Held: 0, Replicas: 2}},   // above the limit
			{a, router.Demand{Retain: 0}, router.Grant{Held: 0, Waiting: 1, Replicas: 2}},
			{b, router.Demand{Need: 1, Limit: 2}, router.Grant{Held: 1, Replicas: 1}},
		} {
			if got := step.who.ask(step.want); got != step.get {
				t.Fatalf("step %d: %+v, want %+v", i, got, step.get)
			}
		}
	})
}

// Backends are independent, and a late Demand has no effect.
func TestSlotsOfManyBackends(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Permits("a").Lasting(time.Hour), open().Permits("b").Lasting(time.Hour)
		wants := []router.Demand{{Addr: "x:1", Limit: 1, Need: 1, Seq: 1}, {Addr: "y:1", Limit: 2, Need: 3, Seq: 2},
			{Addr: "{z}:1", Limit: 3, Spare: 3, Seq: 3}}
		grants, err := a.Exchange(t.Context(), "weather", wants)
		if err != nil || grants[0].Held != 1 || grants[1].Held != 2 || grants[2].Held != 3 {
			t.Fatalf("%+v, %v", grants, err)
		}
		if grants, err = b.Exchange(t.Context(), "news", wants); err != nil || grants[0].Held != 1 {
			t.Errorf("another capability: %+v, %v", grants, err)
		}
		if grants, err = a.Exchange(t.Context(), "weather", wants[:1]); err == nil {
			t.Errorf("the same again: %+v", grants)
		}
		if grants, err = b.Exchange(t.Context(), "weather", wants); err != nil || grants[0].Held != 0 ||
			grants[2].Held != 0 {
			t.Errorf("the other replica: %+v, %v", grants, err)
		}
		if grants, err = a.Exchange(t.Context(), "weather", nil); err != nil || len(grants) != 0 {
			t.Errorf("nothing: %+v, %v", grants, err)
		}
	})
}

// A replica's permits are free some time after its last report, by Redis' clock.
func TestSlotsExpire(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a := &asker{t: t, slots: open().Permits("a").Lasting(200 * time.Millisecond)}
		b := &asker{t: t, slots: open().Permits("b").Lasting(time.Hour)}
		if got := a.ask(router.Demand{Need: 4}); got.Held != 4 {
			t.Fatalf("%+v", got)
		}
		var got router.Grant
		check.Holds(t, "the places of a to be free", func() bool {
			got = b.ask(router.Demand{Need: 1})
			return got.Held > 0
		})

		if got.Held != 1 || got.Replicas != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// A replica that was silent until others got its permits keeps those in use, not those that it would have retained.
func TestSlotsOfASilentReplica(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a := &asker{t: t, slots: open().Permits("a").Lasting(200 * time.Millisecond)}
		b := &asker{t: t, slots: open().Permits("b").Lasting(time.Hour)}
		if got := a.ask(router.Demand{Need: 1, Spare: 2}); got.Held != 3 {
			t.Fatalf("%+v", got)
		}
		check.Holds(t, "the places of a to be free", func() bool { return b.ask(router.Demand{Need: 4}).Held == 4 })
		if got := a.ask(router.Demand{Used: 1, Retain: 3}); got.Held != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// A Redis that lost its scripts, as after a restart, gets them again.
func TestSlotsScriptIsLost(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		a := &asker{t: t, slots: s.Permits("a").Lasting(time.Hour)}
		for range 3 {
			if got := a.ask(router.Demand{Used: 1, Retain: 1, Need: 1}); got.Held != 2 {
				t.Errorf("%+v", got)
			}
			if err := s.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return r.ScriptFlush(ctx).Err()
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSlotsMalformed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		a := &asker{t: t, slots: s.Permits("a").Lasting(time.Hour)}
		p := s.Probe()
		key := a.slots.Key("weather", "10.0.0.7:1")
		if err := p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.HSet(ctx, key, "b", "nonsense", "c", "1 2 3 4 5 6 7", "d", "-1 0 0 0 0 0").Err()
		}); err != nil {
			t.Fatal(err)
		}
		if got := a.ask(router.Demand{Need: 4}); got.Held != 4 || s.Stats().Malformed != 3 {
			t.Errorf("%+v, %d malformed values", got, s.Stats().Malformed)
		}
	})
}

// Holders of permits are told that another replica waits, and waiting replicas that permits were returned.
func TestSlotsNotices(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a := &asker{t: t, slots: open().Permits("a").Lasting(time.Hour)}
		b := &asker{t: t, slots: open().Permits("b").Lasting(time.Hour)}
		ctx, cancel := context.WithCancel(t.Context())
		var listening sync.WaitGroup
		defer check.Ended(t, &listening, "the listener to stop")
		defer cancel()
		heard := map[*asker]chan string{a: make(chan string, 1000), b: make(chan string, 1000)}
		for who, ch := range heard {
			listening.Go(func() { who.slots.Listen(ctx, func(capability string) { ch <- capability }) })
		}
		// Until both listen, each repeatedly begins to wait.
		var ready [2]atomic.Bool
		check.Until(t, "both to listen", func() (bool, string) {
			for i, who := range []*asker{a, b} {
				who.ask(router.Demand{Need: 5})
				who.ask(router.Demand{})
				other := []*asker{b, a}[i]
				select {
				case <-heard[other]:
					ready[i].Store(true)
				default:
				}
			}
			return ready[0].Load() && ready[1].Load(), fmt.Sprint(ready[0].Load(), ready[1].Load())
		})

		a.ask(router.Demand{Need: 4})
		drain(heard[a])
		b.ask(router.Demand{Need: 1})
		if got := check.Received(t, heard[a], "the news that b waits"); got != "weather" {
			t.Errorf("heard %q", got)
		}
		drain(heard[b])
		a.ask(router.Demand{Retain: 3})
		if got := check.Received(t, heard[b], "the news that a gave one back"); got != "weather" {
			t.Errorf("heard %q", got)
		}
	})
}

func drain(ch chan string) {
	for {
		select {
		case <-ch:
		case <-time.After(0):
			return
		}
	}
}

package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/gateway/engine/turns/storetest"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// queue is the queue of one engine. A ticket begins with the letter of its tenant: a1 is a ticket of tenant a.
type queue struct {
	t       *testing.T
	store   *redisstore.EngineTurns
	most    int
	lease   time.Duration
	tickets map[string]*turns.Ticket
}

func newQueue(t *testing.T, s *redisstore.Store) *queue {
	return &queue{t: t, store: s.EngineTurns(), most: 100, lease: time.Hour, tickets: map[string]*turns.Ticket{}}
}

func (q *queue) ticket(id string) *turns.Ticket {
	if q.tickets[id] == nil {
		q.tickets[id] = &turns.Ticket{Engine: "engine-1", Tenant: id[:1], ID: id, Lease: q.lease, MaxWaiting: q.most}
	}
	return q.tickets[id]
}

// wait renews one ticket after another, and returns the one that has the lease.
func (q *queue) wait(ids ...string) (mine string) {
	q.t.Helper()
	for _, id := range ids {
		t := q.ticket(id)
		s, err := q.store.Wait(q.t.Context(), t)
		check.Must(q.t, err)
		switch s.State {
		case turns.Granted:
			mine += id
		case turns.Full:
			mine += id + " full "
		case turns.Waiting:
			t.Seq = s.Seq
			if s.Left <= 0 || s.Left > time.Hour {
				q.t.Errorf("%s waits for %v", id, s.Left)
			}
		}
	}
	return mine
}

// leave ends a ticket, twice as on a Cluster.
func (q *queue) leave(id string, held bool) {
	q.t.Helper()
	for range 2 {
		check.Must(q.t, q.store.Leave(q.t.Context(), q.ticket(id), held))
	}
}

// order gives all waiting tickets their lease, and returns the order.
func (q *queue) order(ids ...string) string {
	q.t.Helper()
	var order []string
	for len(ids) > 0 {
		mine := q.wait(ids...)
		at := slices.Index(ids, mine)
		if at < 0 {
			q.t.Fatalf("after %v: it is the turn of %q", order, mine)
		}
		order = append(order, mine)
		q.leave(mine, true)
		ids = slices.Delete(slices.Clone(ids), at, at+1)
	}
	return strings.Join(order, " ")
}

func (q *queue) says(what, got, want string) {
	q.t.Helper()
	if got != want {
		q.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestTurns(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) turns.Store { return s.EngineTurns() })
}

// TestTicketsAreNotifiedInOrder: tickets are notified in the order of their leases.
func TestTicketsAreNotifiedInOrder(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		q := newQueue(t, open())
		ctx, cancel := context.WithCancel(t.Context())
		notified, connected := make(chan string, 100), make(chan struct{}, 100)
		var watching sync.WaitGroup
		defer check.Ended(t, &watching, "the watches to stop")
		defer cancel()
		watching.Go(func() {
			open().EngineTurns().Watch(ctx, func(id string) { notified <- id }, func() { connected <- struct{}{} })
		})
		check.Received(t, connected, "the subscription")
		q.wait("a1", "a2", "b1")
		q.leave("a1", true)
		q.says("after the first", check.Received(t, notified, "the second turn"), "b1")
		q.leave("b1", true)
		q.says("after the second", check.Received(t, notified, "the third turn"), "a2")
	})
}

func TestTurnsAreFair(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		q := newQueue(t, open())
		q.says("the first", q.wait("a1"), "a1")
		q.says("others", q.wait("a2", "a3", "a4", "b1", "b2", "c1", "a1"), "a1")
		q.leave("a1", true)
		q.says("the order", q.order("a2", "a3", "a4", "b1", "b2", "c1"), "b1 c1 a2 b2 a3 a4")

		// b has four tickets; a enqueues again after each turn.
		q.says("a ticket in an empty queue", q.wait("b3"), "b3")
		q.wait("b4", "b5", "b6", "b7", "a5")
		q.leave("b3", true)
		had := map[string]int{}
		for a := 5; had["a"]+had["b"] < 6; {
			mine := q.wait("b4", "b5", "b6", "b7", fmt.Sprint("a", a))[:2]
			had[mine[:1]]++
			if mine[:1] == "a" {
				a++
				q.wait(fmt.Sprint("a", a))
			}
			q.leave(mine, true)
			delete(q.tickets, mine)
		}
		if had["a"] != 3 || had["b"] != 3 {
			t.Errorf("turns of the tenant that returns, and of the one that waits: %v", had)
		}
	})
}

// TestTicketsThatLeaveAreSkipped: a ticket that leaves is skipped, at no cost for its tenant.
func TestTicketsThatLeaveAreSkipped(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		q := newQueue(t, open())
		q.wait("c1", "a1", "a2", "a3", "a4", "b1", "b2")
		for _, id := range []string{"a1", "a2", "a3"} {
			q.leave(id, false)
		}
		q.wait("a5")
		q.leave("c1", true)
		q.says("the order", q.order("a4", "a5", "b1", "b2"), "a4 b1 b2 a5")
	})
}

func TestTurnsAreBounded(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		q := newQueue(t, open())
		q.most = 2
		q.says("more than may wait", q.wait("a1", "a2", "a3", "a4"), "a1a4 full ")
		q.says("first ones of tenants", q.wait("b1", "b2", "c1", "d1"), "b2 full d1 full ")
		q.says("the waiting tickets again", q.wait("a2", "a3", "b1", "c1"), "")
		q.leave("a2", false)
		q.leave("b1", false)
		q.says("with room", q.wait("d2", "a4"), "a4 full ")
		q.leave("d2", false)
		q.leave("c1", false)
		q.says("with more room", q.wait("a4"), "")
		q.leave("a1", true)
		q.says("the order", q.order("a3", "a4"), "a3 a4")

		none := newQueue(t, open())
		none.most = 0
		none.says("where nobody may wait", none.wait("a6", "a7", "b6"), "a6a7 full b6 full ")
	})
}

// TestTicketsWithoutRenewalsAreRemoved: a ticket without renewals is removed from the queue, or loses its lease.
func TestTicketsWithoutRenewalsAreRemoved(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		q, dead := newQueue(t, open()), newQueue(t, open())
		dead.lease = 50 * time.Millisecond
		if s, err := dead.store.Wait(t.Context(), dead.ticket("a1")); err != nil || s.State != turns.Granted {
			t.Fatalf("got %+v, %v", s, err)
		}
		if s, err := dead.store.Wait(t.Context(), dead.ticket("a2")); err != nil {
			t.Fatalf("got %+v, %v", s, err)
		}
		check.Holds(t, "the dead to be dropped", func() bool { return q.wait("a3") == "a3" })
		q.says("tickets that had expired", q.wait("a1", "a2", "a3"), "a3")
		q.leave("a3", true)
		dead.tickets["a1"].Lease, dead.tickets["a2"].Lease = time.Hour, time.Hour
		q.says("then", dead.order("a1", "a2"), "a1 a2")
	})
}

// TestTurnsAreLost: after a loss of Redis' data the holder keeps the turn, and the queue its order.
func TestTurnsAreLost(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		q := newQueue(t, open())
		lose := func() {
			t.Helper()
			check.Must(t, q.store.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return r.Del(ctx, q.store.Keys("engine-1")...).Err()
			}))
		}
		q.says("the first", q.wait("a1", "a2", "a3"), "a1")
		lose()
		for _, id := range []string{"a2", "a3", "a4"} {
			q.ticket(id).MaybeLost = true
		}
		q.says("the waiting tickets", q.wait("a4", "a3", "a2"), "")
		check.Must(t, q.store.Hold(t.Context(), q.ticket("a1")))
		q.says("the holder", q.wait("a2", "a1"), "a1")
		q.leave("a1", true)
		q.says("the order", q.order("a2", "a3", "a4"), "a2 a3 a4")

		q.wait("b1", "b2")
		lose()
		q.ticket("b2").MaybeLost = true
		q.says("the waiting ticket", q.wait("b2"), "")
		q.leave("b1", true)
		q.says("after the holder has left", q.wait("b2"), "b2")

		q.ticket("b2").Lease = 100 * time.Millisecond
		lose()
		check.Until(t, "nobody to claim it", func() (bool, string) {
			s, err := q.store.Wait(t.Context(), q.ticket("b2"))
			return err == nil && s.State == turns.Granted, fmt.Sprint(s, err)
		})

	})
}

// TestTicketsSurviveASilentRedis: no ticket could renew while Redis stood still, and none is removed for that.
func TestTicketsSurviveASilentRedis(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		q := newQueue(t, open())
		q.wait("a1", "b1", "a2", "b2")
		keys := q.store.Keys("engine-1")
		check.Must(t, q.store.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.HSet(ctx, keys[0], "said", 1)
				p.ZAdd(ctx, keys[1], redis.Z{Score: 2, Member: "a1"})
				for _, id := range []string{"b1", "a2", "b2"} {
					p.ZAdd(ctx, keys[3], redis.Z{Score: 2, Member: id})
				}
				return nil
			})
			return err
		}))
		q.ticket("b2").MaybeLost = true
		q.says("the first ticket", q.wait("b2", "a1"), "a1")
		q.leave("a1", true)
		q.says("the order", q.order("b1", "a2", "b2"), "b1 a2 b2")
	})
}

// TestTurnsLeaveLittle: every key expires, and the number of remembered tenants is bounded.
func TestTurnsLeaveLittle(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		q := newQueue(t, open())
		keys := q.store.Keys("engine-1")
		q.wait("a1", "a2")
		check.Must(t, q.store.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			var many []redis.Z
			for i := range 1100 {
				many = append(many, redis.Z{Score: 7, Member: fmt.Sprint("tenant ", i)})
			}
			return r.ZAdd(ctx, keys[5], many...).Err()
		}))
		q.leave("a1", true)
		q.ticket("b1").Tenant = "ten:ant {}"
		q.says("then", q.wait("a2", "b1"), "a2")
		q.leave("a2", true)
		q.says("at last", q.wait("b1"), "b1")
		if ok, err := q.store.Acquire(t.Context(), &turns.LeaseRequest{Engine: "engine-1", ID: "x",
			Lease: time.Hour}); !ok ||
			err != nil {
			t.Errorf("got %v, %v", ok, err)
		}
		check.Must(t, q.store.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			if n := r.HLen(ctx, keys[0]).Val(); n != 3 {
				t.Errorf("state is %v", r.HGetAll(ctx, keys[0]).Val())
			}
			for i, most := range []int64{1, 0, 0, 0, 1001} {
				if n := r.ZCard(ctx, keys[i+1]).Val(); n > most {
					t.Errorf("%s has %d", keys[i+1], n)
				}
			}
			for _, key := range keys {
				if ttl := r.PTTL(ctx, key).Val(); ttl == -1 {
					t.Errorf("%s has no end", key)
				}
			}
			return nil
		}))
	})
}

// TestLeasesEnd: a lease ends with its time, and applies to one engine.
func TestLeasesEnd(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open().EngineTurns()
		acquired := func(engine, id string, lease time.Duration) bool {
			t.Helper()
			ok, err := s.Acquire(t.Context(), &turns.LeaseRequest{Engine: engine, ID: id, Lease: lease})
			check.Must(t, err)
			return ok
		}
		if !acquired("engine-1", "a", time.Hour) || !acquired("engine-2", "b", time.Millisecond) {
			t.Error("two engines have no lease each")
		}
		check.Holds(t, "a lease to end", func() bool { return acquired("engine-2", "c", time.Hour) })
		if acquired("engine-1", "c", time.Hour) {
			t.Error("a lease has ended before its time")
		}
	})
}

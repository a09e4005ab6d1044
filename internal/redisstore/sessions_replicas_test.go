package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// sessionReplica is a gateway's memory of sessions, with the backends that its file has.
type sessionReplica struct {
	*affinity.Resolver
	table *router.Table
}

func newSessionReplica(t *testing.T, s *redisstore.Store) *sessionReplica {
	t.Helper()
	r := &sessionReplica{Resolver: affinity.New(affinity.Config{Wait: patience}, s.Sessions())}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return r
}

// configure is a file with these backends.
func (r *sessionReplica) configure(t *testing.T, addrs []string) {
	t.Helper()
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
		Capability: "caps", Backends: router.Addrs(addrs...), Affinity: router.Affinity{Sessions: true,
			SessionTTL: time.Hour},
	}}}, r.table)
	if err != nil {
		t.Fatal(err)
	}
	r.table = table
}

// call is a call of a session: the backend that it comes to, or why to none.
func (r *sessionReplica) call(session string) (addr, refused string) {
	q := affinity.Query{Fleet: r.table.Fleet("caps"), Tenant: "default", Session: session}
	a, known := r.Lookup(&q)
	if !known {
		answer := make(chan affinity.Answer, 1)
		r.Resolve(q.Clone(), func(a affinity.Answer) { answer <- a })
		a = <-answer
	}
	if a.Refusal != nil {
		return "", a.Refusal.Reason
	}
	a.Pinned.MarkUsed()
	return a.Backend.Addr, ""
}

// TestLossesByConfiguration takes one backend after the other out of the files of two replicas. The calls that
// are told of it, and those that follow, come through one or the other.
func TestLossesByConfiguration(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := newSessionReplica(t, open()), newSessionReplica(t, open())
		for i := range 8 {
			backends := []string{"b0:1", "b1:1", "b2:1", "b3:1"}
			configure := func() {
				a.configure(t, backends)
				b.configure(t, backends)
			}
			configure()
			session := fmt.Sprint("session-", i)
			a.call(session)
			home, refused := b.call(session) // one that never saw a session waits for its backend to be configured
			for loss := range 3 {
				if refused != "" {
					t.Fatalf("session %d, before loss %d: %s", i, loss, refused)
				}
				left := backends[:0:0]
				for _, addr := range backends {
					if addr != home {
						left = append(left, addr)
					}
				}
				backends = left
				configure()
				through, other := a, b
				if i>>loss&1 == 1 {
					through, other = b, a
				}
				if addr, refused := through.call(session); refused != "SESSION_LOST" {
					t.Fatalf("session %d, loss %d: went to %q, %s", i, loss, addr, refused)
				}
				home, refused = other.call(session)
			}
		}
	})
}

// TestTheReplicaThatTellsAndDies uses the new pin at one replica only, which ends at once: another one knows of the
// use when that backend goes.
func TestTheReplicaThatTellsAndDies(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := newSessionReplica(t, open()), newSessionReplica(t, open())
		backends := []string{"b0:1", "b1:1", "b2:1"}
		a.configure(t, backends)
		b.configure(t, backends)
		gone := func(r *sessionReplica, addr string) { r.table.Fleet("caps").Backend(addr).MarkGone() }
		home, _ := a.call("mine")
		gone(a, home)
		if _, refused := a.call("mine"); refused != "SESSION_LOST" {
			t.Fatal(refused)
		}
		next, _ := a.call("mine") // and a is never heard of again
		gone(b, home)
		gone(b, next)
		if addr, refused := b.call("mine"); refused != "SESSION_LOST" {
			t.Errorf("went to %q, %s", addr, refused)
		}
		if _, refused := b.call("mine"); refused != "" {
			t.Error(refused)
		}
	})
}

// TestAPinThatNobodyUsed was made when a loss was told. Its backend goes before a call comes there: nothing is lost
// once more, whichever replica finds out.
func TestAPinThatNobodyUsed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := newSessionReplica(t, open()), newSessionReplica(t, open())
		for _, r := range []*sessionReplica{a, b} {
			r.configure(t, []string{"b0:1", "b1:1", "b2:1"})
		}
		gone := func(addr string) {
			for _, r := range []*sessionReplica{a, b} {
				r.table.Fleet("caps").Backend(addr).MarkGone()
			}
		}
		home, _ := a.call("mine")
		if other, _ := b.call("mine"); other != home {
			t.Fatalf("at %s and %s", home, other)
		}
		gone(home)
		if _, refused := a.call("mine"); refused != "SESSION_LOST" {
			t.Fatal(refused)
		}
		for _, addr := range []string{"b0:1", "b1:1", "b2:1"} {
			if addr != home {
				gone(addr)
				break
			}
		}
		if _, refused := b.call("mine"); refused != "" {
			t.Error(refused)
		}
		if _, refused := a.call("mine"); refused != "" {
			t.Error(refused)
		}
	})
}

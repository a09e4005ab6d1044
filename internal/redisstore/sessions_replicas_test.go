package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// sessionReplica is a gateway's session affinity, with the backends of its file.
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
		check.Ended(t, &running, "the background work to end")
	})
	return r
}

// configure loads a file with these backends.
func (r *sessionReplica) configure(t *testing.T, addrs []string) {
	t.Helper()
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
		Capability: "caps", Backends: router.Addrs(addrs...), Affinity: router.Affinity{Sessions: true,
			SessionTTL: time.Hour},
	}}}, r.table)
	check.Must(t, err)
	r.table = table
}

// call makes a call of a session, and returns its backend or the refusal.
func (r *sessionReplica) call(t *testing.T, session string) (addr, refused string) {
	t.Helper()
	q := affinity.Query{Fleet: r.table.Fleet("caps"), Tenant: "default", Session: session}
	a, known := r.Lookup(&q)
	if !known {
		answer := make(chan affinity.Answer, 1)
		r.Resolve(q.Clone(), func(a affinity.Answer) { answer <- a })
		a = check.Received(t, answer, "the backend of the session")
	}
	if a.Refusal != nil {
		return "", a.Refusal.Reason
	}
	a.Pinned.MarkUsed()
	return a.Backend.Addr, ""
}

// TestLossesByConfiguration: backends are removed one after another from the files of two replicas. The calls
// that report the loss, and the following ones, use either replica.
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
			a.call(t, session)
			home, refused := b.call(t, session) // a replica without the session waits until its backend is configured
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
				if addr, refused := through.call(t, session); refused != "SESSION_LOST" {
					t.Fatalf("session %d, loss %d: went to %q, %s", i, loss, addr, refused)
				}
				home, refused = other.call(t, session)
			}
		}
	})
}

// TestTheReplicaThatReportsALossDies: a replica uses the new pin and then ends. Another replica knows of the use
// when that backend is lost.
func TestTheReplicaThatReportsALossDies(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := newSessionReplica(t, open()), newSessionReplica(t, open())
		backends := []string{"b0:1", "b1:1", "b2:1"}
		a.configure(t, backends)
		b.configure(t, backends)
		gone := func(r *sessionReplica, addr string) { r.table.Fleet("caps").Backend(addr).MarkGone() }
		home, _ := a.call(t, "mine")
		gone(a, home)
		if _, refused := a.call(t, "mine"); refused != "SESSION_LOST" {
			t.Fatal(refused)
		}
		next, _ := a.call(t, "mine") // then a ends
		gone(b, home)
		gone(b, next)
		if addr, refused := b.call(t, "mine"); refused != "SESSION_LOST" {
			t.Errorf("went to %q, %s", addr, refused)
		}
		if _, refused := b.call(t, "mine"); refused != "" {
			t.Error(refused)
		}
	})
}

// TestAnUnusedPinIsNoLoss: the backend of a new pin is lost before a call reaches it. No replica reports another
// loss.
func TestAnUnusedPinIsNoLoss(t *testing.T) {
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
		home, _ := a.call(t, "mine")
		if other, _ := b.call(t, "mine"); other != home {
			t.Fatalf("at %s and %s", home, other)
		}
		gone(home)
		if _, refused := a.call(t, "mine"); refused != "SESSION_LOST" {
			t.Fatal(refused)
		}
		for _, addr := range []string{"b0:1", "b1:1", "b2:1"} {
			if addr != home {
				gone(addr)
				break
			}
		}
		if _, refused := b.call(t, "mine"); refused != "" {
			t.Error(refused)
		}
		if _, refused := a.call(t, "mine"); refused != "" {
			t.Error(refused)
		}
	})
}

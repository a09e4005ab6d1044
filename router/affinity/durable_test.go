package affinity_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// TestDurableSessions: a session stays at a backend that has gone and come back, also if its fleet had no backend
// meanwhile. It is lost only if others took the backend's place.
func TestDurableSessions(t *testing.T) {
	t.Parallel()
	fleet := func(before *router.Table, durable bool, addrs ...string) *router.Table {
		table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
			Capability: "engine", Backends: router.Addrs(addrs...),
			Affinity: router.Affinity{Sessions: true, Durable: durable, SessionTTL: time.Hour},
		}}}, before)
		check.Must(t, err)
		return table
	}
	for _, durable := range []bool{true, false} {
		r := affinity.New(affinity.Config{}, nil)
		table := fleet(nil, durable, "a:1")
		ask := func() affinity.Answer {
			a, known := r.Lookup(&affinity.Query{Fleet: table.Fleet("engine"), Tenant: "acme", Session: "s"})
			if !known {
				t.Fatal("without a store everything is known")
			}
			a.Pinned.MarkUsed()
			return a
		}
		wants := func(what, addr, reason string) {
			t.Helper()
			a := ask()
			switch {
			case reason == "" && (a.Backend == nil || a.Backend.Addr != addr),
				reason != "" && (a.Refusal == nil || a.Refusal.Reason != reason):
				t.Errorf("durable %t: %s: %+v, %v", durable, what, a.Backend, a.Refusal)
			}
		}
		lost := "SESSION_LOST"
		if durable {
			lost = ""
		}
		wants("the first call", "a:1", "")
		table.Fleet("engine").Backend("a:1").MarkGone()
		wants("after a restart", "a:1", lost)
		wants("the next call", "a:1", "")
		table = fleet(table, durable)
		gone := "NO_BACKEND"
		if !durable {
			gone = "SESSION_LOST"
		}
		wants("without backends", "", gone)
		table = fleet(table, durable, "a:1")
		wants("registered again", "a:1", "")
		table = fleet(table, durable, "b:1")
		wants("another in its place", "", "SESSION_LOST")
		wants("after that", "b:1", "")
	}
}

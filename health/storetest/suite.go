package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Shared is the state of health that replicas share.
type Shared interface {
	health.Membership
	health.Store
}

// Suite returns the tests that every Shared passes.
func Suite() contract.Suite[Shared] {
	return contract.Suite[Shared]{
		"replicas are members":    testMembership,
		"observations are shared": testObservations,
	}
}

func testMembership(t *testing.T, open func() Shared) {
	a, b := open(), open()
	digest := health.Digest{Probes: 3, Sum: 1<<63 + 7, Late: 1500 * time.Millisecond}
	heartbeat := func(r Shared, id string, dead time.Duration) health.Members {
		t.Helper()
		m, err := r.Heartbeat(t.Context(), health.Heartbeat{Replica: id, Digest: digest, Dead: dead})
		check.Must(t, err)
		slices.SortFunc(m.Members, func(a, b health.Member) int { return len(a.Replica) - len(b.Replica) })
		return m
	}
	one := heartbeat(a, "a", time.Hour)
	if len(one.Members) != 1 || one.Members[0].Replica != "a" || one.Members[0].Age != 0 ||
		one.Members[0].Digest != digest || one.Epoch == "" {
		t.Errorf("alone: %+v", one)
	}
	two := heartbeat(b, "bb", time.Hour)
	if len(two.Members) != 2 || two.Members[0].Replica != "a" || two.Members[0].Age < 0 || two.Epoch != one.Epoch ||
		two.Now < one.Now {
		t.Errorf("two: %+v", two)
	}
	events := Watch(t, a)
	check.Must(t, b.Leave(t.Context(), "bb"))
	if n := check.Received(t, events, "the event"); n.Left != "bb" {
		t.Errorf("when one left: %+v", n)
	}
	if m := heartbeat(a, "a", time.Hour); len(m.Members) != 1 {
		t.Errorf("after one left: %+v", m)
	}
	if m := heartbeat(a, "a", -time.Hour); len(m.Members) != 0 {
		t.Errorf("when all beats are too old: %+v", m)
	}
}

// Watch returns the events after the subscription.
func Watch(t *testing.T, s health.Store) <-chan health.Event {
	t.Helper()
	events := make(chan health.Event, 100)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = s.Watch(ctx, func(n health.Event) { events <- n }) })
	t.Cleanup(func() {
		stop()
		check.Ended(t, &watching, "the watches to stop")
	})
	if n := check.Received(t, events, "the event"); !n.Subscribed {
		t.Errorf("at first: %+v", n)
	}
	return events
}

func testObservations(t *testing.T, open func() Shared) {
	a, b := open(), open()
	n := health.ShardOf("weather")
	page := func(whole bool) health.Shard {
		t.Helper()
		p, err := b.Shard(t.Context(), n, whole)
		check.Must(t, err)
		return p
	}
	if p := page(true); p.Version != 0 || len(p.Entries) != 0 || p.Now == 0 {
		t.Errorf("empty: %+v", p)
	}
	events := Watch(t, b)
	key := health.Key{Capability: "weather", Addr: "10.0.0.7:50051", Role: health.Secondary}
	observation := health.Observation{
		State: health.Down, Refused: true, Dialect: uint8(call.Live), Episode: 1<<32 - 1,
		By: "a", Reason: "no answer in time", Since: 1, Written: 1,
	}
	publish := func(reports ...health.Report) health.Event {
		t.Helper()
		_, err := a.Publish(t.Context(), reports)
		check.Must(t, err)
		return check.Received(t, events, "the event")
	}
	published := publish(health.Report{Key: key, Observation: &observation, Age: time.Minute}, health.Report{
		Key: health.Key{Capability: "weather", Addr: "b:1"}, Observation: &observation,
	})
	own := slices.IndexFunc(published.Entries, func(e health.Entry) bool { return e.Key == key })
	if published.Shard != n || published.Version == 0 || published.Previous != 0 || len(published.Entries) != 2 ||
		own < 0 {
		t.Fatalf("published: %+v", published)
	}
	got := *published.Entries[own].Observation
	if got.Written-got.Since != time.Minute.Milliseconds() {
		t.Errorf("published: %+v", got)
	}
	got.Since, got.Written = observation.Since, observation.Written
	if got != observation {
		t.Errorf("posted %+v, published %+v", observation, got)
	}
	p := page(true)
	if p.Version != published.Version || len(p.Entries) != 2 {
		t.Errorf("read: %+v", p)
	}
	if p := page(false); p.Version != published.Version || len(p.Entries) != 0 {
		t.Errorf("its version: %+v", p)
	}
	next := publish(health.Report{Key: key})
	if next.Version <= published.Version || next.Previous != published.Version || len(next.Entries) != 1 ||
		next.Entries[0].Observation != nil {
		t.Errorf("published that one is gone: %+v", next)
	}
	if p := page(true); p.Version != next.Version || len(p.Entries) != 1 || p.Entries[0].Addr != "b:1" {
		t.Errorf("one is gone: %+v", p)
	}
}

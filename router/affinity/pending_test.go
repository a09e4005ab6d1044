package affinity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// noteStore is a store that also sends the artifacts that it stores.
type noteStore struct {
	memoryStore
	told chan []affinity.Location
}

func newNoteStore(room int) noteStore {
	return noteStore{memoryStore{newMemory(), "1"}, make(chan []affinity.Location, room)}
}

func (s noteStore) StoreLocations(ctx context.Context, all []affinity.Location) ([]bool, error) {
	select {
	case s.told <- all:
	case <-ctx.Done():
	}
	return s.memoryStore.StoreLocations(ctx, all)
}

// TestOneTenantDoesNotFillTheClaims: a tenant with ever more artifacts while the store is slow loses only its own
// claims.
func TestOneTenantDoesNotFillTheClaims(t *testing.T) {
	t.Parallel()
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
		Capability: "mail", Backends: router.Addrs("a:1"), Affinity: router.Affinity{Artifacts: true,
			ArtifactTTL: time.Hour},
	}}}, nil)
	check.Must(t, err)
	fleet := table.Fleet("mail")
	store := newNoteStore(0)
	r := affinity.New(affinity.Config{}, store)
	learn := func(tenant string, n int) {
		for i := range n {
			r.Learn(affinity.Mention{
				Fleet: fleet, Tenant: tenant, ID: fmt.Sprint(tenant, i), Backend: fleet.Backend("a:1"),
				Authoritative: true,
			})
		}
	}
	learn("heavy", 10_000)
	learn("light", 100)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	told := map[string]int{}
	for told["light"] < 100 && told["heavy"] < 4096 {
		for _, h := range check.Received(t, store.told, "the notice") {
			told[h.Artifact.Tenant]++
		}
	}
	cancel()
	check.Ended(t, &running, "the background work to end")
	if told["light"] != 100 || told["heavy"] == 0 {
		t.Errorf("the store was told of %v", told)
	}
}

// TestLastArtifactsAreStored: what a gateway has learned when it stops is stored, as its callers ask other replicas
// next.
func TestLastArtifactsAreStored(t *testing.T) {
	t.Parallel()
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
		Capability: "mail", Backends: router.Addrs("a:1"), Affinity: router.Affinity{Artifacts: true,
			ArtifactTTL: time.Hour},
	}}}, nil)
	check.Must(t, err)
	fleet := table.Fleet("mail")
	store := newNoteStore(10)
	r := affinity.New(affinity.Config{}, store)
	r.Learn(affinity.Mention{Fleet: fleet, Tenant: "acme", ID: "f-1", Backend: fleet.Backend("a:1"),
		Authoritative: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Run(ctx)
	select {
	case got := <-store.told:
		if len(got) != 1 || got[0].Artifact.ID != "f-1" {
			t.Errorf("the store was told of %v", got)
		}
	default:
		t.Error("the store was told nothing")
	}
}

// settling is a store that settles claims with one verdict, when it is not away.
type settling struct {
	affinity.Store
	owned bool
	away  atomic.Bool
}

func (s *settling) Unavailable() bool { return s.away.Load() }

func (*settling) Watch(ctx context.Context, _ func(affinity.Session, affinity.Pin), _ func()) {
	<-ctx.Done()
}

func (s *settling) StoreLocations(_ context.Context, all []affinity.Location) ([]bool, error) {
	return slices.Repeat([]bool{s.owned}, len(all)), nil
}

// TestUnsettledClaims: an artifact that a backend names to a tenant is the tenant's own once the store confirms it.
// While the store is unavailable, this is unknown.
func TestUnsettledClaims(t *testing.T) {
	t.Parallel()
	for owned, want := range map[bool]string{true: "", false: "ARTIFACT_UNKNOWN"} {
		t.Run(fmt.Sprint(owned), func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) { settleClaim(t, owned, want) })
		})
	}
}

func settleClaim(t *testing.T, owned bool, want string) {
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
		Capability: "mail", Backends: router.Addrs("a:1"), Affinity: router.Affinity{Artifacts: true,
			ArtifactTTL: time.Hour},
	}}}, nil)
	check.Must(t, err)
	fleet, store := table.Fleet("mail"), &settling{owned: owned}
	r := affinity.New(affinity.Config{Every: time.Second}, store)
	var running sync.WaitGroup
	defer check.Ended(t, &running, "the background work to end")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	running.Go(func() { r.Run(ctx) })
	lookup := func(bound bool) (reason string, known bool) {
		a, known := r.Lookup(&affinity.Query{Fleet: fleet, Tenant: "acme", Artifacts: []string{"x"}, OwnedOnly: bound})
		if a.Refusal != nil {
			return a.Refusal.Reason, known
		}
		return "", known
	}
	store.away.Store(true)
	r.Learn(affinity.Mention{Fleet: fleet, Tenant: "acme", ID: "x", Backend: fleet.Backend("a:1"), OwnedOnly: true})
	synctest.Wait()
	if reason, known := lookup(true); reason != "ARTIFACTS_UNAVAILABLE" || !known {
		t.Errorf("without the store: %q, %t", reason, known)
	}
	if reason, known := lookup(false); reason != "" || !known {
		t.Errorf("a call that may name any artifact: %q, %t", reason, known)
	}
	store.away.Store(false)
	if reason, known := lookup(true); known {
		t.Errorf("before the store has settled it: %q", reason)
	}
	<-time.After(time.Second) // the next attempt to store it
	synctest.Wait()
	store.away.Store(true)
	if reason, known := lookup(true); reason != want || !known {
		t.Errorf("settled: %q, %t; want %q", reason, known, want)
	}
}

// TestRoomOfStoredArtifacts: the room of artifacts that wait to be stored is free again once they are.
func TestRoomOfStoredArtifacts(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		fleet, store := mail(t), newNoteStore(1000)
		r := affinity.New(affinity.Config{}, store)
		var running sync.WaitGroup
		defer check.Ended(t, &running, "the background work to end")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		running.Go(func() { r.Run(ctx) })
		for round := range 20 {
			for i := range 500 {
				r.Learn(affinity.Mention{Fleet: fleet, Tenant: "acme", ID: fmt.Sprint(round, "-", i),
					Backend: fleet.Backend("a:1"), Authoritative: true})
			}
			synctest.Wait()
		}
		if s := r.Stats(); s.Dropped > 0 {
			t.Errorf("%d artifacts were dropped", s.Dropped)
		}
	})
}

// refusing is a store whose first commands fail.
type refusing struct {
	noteStore
	failures atomic.Int32
	bound    chan affinity.Binding
}

var errRefused = errors.New("refused")

func (s *refusing) StoreLocations(ctx context.Context, all []affinity.Location) ([]bool, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, errRefused
	}
	return s.noteStore.StoreLocations(ctx, all)
}

func (s *refusing) Bind(ctx context.Context, all []affinity.Binding) ([]affinity.BindResult, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, errRefused
	}
	for _, b := range all {
		s.bound <- b
	}
	return s.memoryStore.Bind(ctx, all)
}

// TestStoreThatFails: what a store did not take is given to it again: the backends of artifacts and of sessions.
func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		fleet := mail(t)
		store := &refusing{noteStore: newNoteStore(10),
			bound: make(chan affinity.Binding, 10)}
		r := affinity.New(affinity.Config{Every: time.Second}, store)
		var running sync.WaitGroup
		defer check.Ended(t, &running, "the background work to end")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		running.Go(func() { r.Run(ctx) })
		store.failures.Store(1)
		r.Learn(affinity.Mention{Fleet: fleet, Tenant: "acme", ID: "f-1", Backend: fleet.Backend("a:1"),
			Authoritative: true})
		<-time.After(3 * time.Second) // of the bubble's clock
		if len(store.told) != 1 {
			t.Errorf("the store was told of artifacts %d times", len(store.told))
		}
		store.failures.Store(2)
		answered := make(chan affinity.Answer, 1)
		r.Resolve(affinity.Query{Fleet: fleet, Tenant: "acme", Session: "s"},
			func(a affinity.Answer) { answered <- a })
		if a := <-answered; a.Backend == nil || a.Backend.Addr != "a:1" {
			t.Errorf("the session got %+v, %v", a.Backend, a.Refusal)
		}
		<-time.After(3 * time.Second)
		select {
		case b := <-store.bound:
			if b.Session.ID != "s" {
				t.Errorf("the store was told of the session %q", b.Session.ID)
			}
		default:
			t.Error("the store was not told of the session")
		}
	})
}

// mail returns a fleet of one backend, which keeps sessions and artifacts.
func mail(t *testing.T) *router.Fleet {
	t.Helper()
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
		Capability: "mail", Backends: router.Addrs("a:1"), Affinity: router.Affinity{Sessions: true,
			SessionTTL: time.Hour, Artifacts: true, ArtifactTTL: time.Hour},
	}}}, nil)
	check.Must(t, err)
	return table.Fleet("mail")
}

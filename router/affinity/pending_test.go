package affinity_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// noteStore records the artifacts that it stores.
type noteStore struct {
	affinity.Store
	told chan []affinity.Location
}

func (noteStore) Unavailable() bool { return false }

func (noteStore) Watch(ctx context.Context, _ func(affinity.Session, affinity.Pin), _ func()) {
	<-ctx.Done()
}

func (s noteStore) StoreLocations(ctx context.Context, all []affinity.Location) ([]bool, error) {
	select {
	case s.told <- all:
	case <-ctx.Done():
	}
	return make([]bool, len(all)), nil
}

// TestOneTenantDoesNotFillTheClaims: a tenant with ever more artifacts while the store is slow loses only its own
// claims.
func TestOneTenantDoesNotFillTheClaims(t *testing.T) {
	t.Parallel()
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
		Capability: "mail", Backends: router.Addrs("a:1"), Affinity: router.Affinity{Artifacts: true,
			ArtifactTTL: time.Hour},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fleet := table.Fleet("mail")
	store := noteStore{told: make(chan []affinity.Location)}
	r := affinity.New(affinity.Config{}, store)
	learn := func(tenant string, n int) {
		for i := range n {
			r.Learn(affinity.Mention{
				Fleet: fleet, Tenant: tenant, ID: fmt.Sprint(tenant, i), Backend: fleet.Backend("a:1"), Authoritative: true,
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
		for _, h := range <-store.told {
			told[h.Artifact.Tenant]++
		}
	}
	cancel()
	running.Wait()
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
	if err != nil {
		t.Fatal(err)
	}
	fleet := table.Fleet("mail")
	store := noteStore{told: make(chan []affinity.Location, 10)}
	r := affinity.New(affinity.Config{}, store)
	r.Learn(affinity.Mention{Fleet: fleet, Tenant: "acme", ID: "f-1", Backend: fleet.Backend("a:1"), Authoritative: true})
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

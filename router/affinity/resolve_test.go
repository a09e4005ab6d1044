package affinity_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// lateStore responds after the timeout.
type lateStore struct{ affinity.Store }

func (lateStore) Unavailable() bool { return false }

func (lateStore) Watch(ctx context.Context, _ func(affinity.Session, affinity.Pin), _ func()) {
	<-ctx.Done()
}

func (lateStore) Bind(ctx context.Context, all []affinity.Binding) ([]affinity.BindResult, error) {
	<-ctx.Done()
	bound := make([]affinity.BindResult, len(all))
	for i, b := range all {
		bound[i] = affinity.BindResult{Pin: b.Pin, New: true}
	}
	return bound, nil
}

func (lateStore) Locate(ctx context.Context, _ affinity.Artifact) (string, error) {
	<-ctx.Done()
	return "a:1", nil
}

// TestTheStoreIsLate: calls proceed without it, and a late response does no harm.
func TestTheStoreIsLate(t *testing.T) {
	t.Parallel()
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{{
		Capability: "mail", Backends: router.Addrs("a:1", "b:1"), Affinity: router.Affinity{
			Sessions: true, Artifacts: true, SessionTTL: time.Hour,
		},
	}}}, nil)
	check.Must(t, err)
	r := affinity.New(affinity.Config{Wait: time.Millisecond}, lateStore{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	for i := range 100 {
		q := affinity.Query{Fleet: table.Fleet("mail"), Tenant: "acme", Session: fmt.Sprint(i)}
		if i%2 == 0 {
			q.Artifacts = []string{q.Session}
		}
		answered := make(chan affinity.Answer, 1)
		r.Resolve(q, func(a affinity.Answer) { answered <- a })
		if a := check.Received(t, answered, "the answer"); a.Refusal != nil {
			t.Errorf("%d: %v", i, a.Refusal)
		}
	}
	cancel()
	check.Ended(t, &running, "the background work to end")
}

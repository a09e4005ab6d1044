package registration_test

import (
	"context"
	"sync"

	"github.com/capgate/capgate/internal/registry"
)

// leases holds the leases of one replica. They never expire.
type leases struct {
	mu  sync.Mutex
	all map[registry.Key]string
}

func (l *leases) Register(_ context.Context, g *registry.Registration, renew bool, _ int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had, ok := l.all[g.Key()]; ok && renew && had != g.Lease {
		return registry.ErrSuperseded
	}
	l.all[g.Key()] = g.Lease
	return nil
}

func (l *leases) Withdraw(_ context.Context, key registry.Key, lease string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	had, ok := l.all[key]
	if ok && lease != "" && had != lease {
		return false, registry.ErrSuperseded
	}
	delete(l.all, key)
	return ok, nil
}

func (*leases) Read(context.Context, string) (registry.Reading, error) {
	return registry.Reading{Unchanged: true}, nil
}

func (*leases) Manifest(context.Context, registry.Sum) (string, error) { return "", nil }

func (*leases) Watch(ctx context.Context, _ func()) { <-ctx.Done() }

package affinity_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/router/affinity"
	"github.com/capgate/capgate/router/affinity/storetest"
)

// memory is the data of stores in memory.
type memory struct {
	mu        sync.Mutex
	pins      map[affinity.Session]*pin
	owners    map[affinity.Artifact]string // tenants, by artifact without a tenant
	locations map[affinity.Artifact]location
	watchers  []func(affinity.Session, affinity.Pin)
}

type pin struct {
	affinity.Pin
	since, ends time.Time
	maker, user string // replicas; user is "" for none, and "+" for several
	after       bool   // others may have used the pin before
}

type location struct {
	addr string
	ends time.Time
}

func newMemory() *memory {
	return &memory{pins: map[affinity.Session]*pin{}, owners: map[affinity.Artifact]string{},
		locations: map[affinity.Artifact]location{}}
}

// memoryStore is the store of one replica.
type memoryStore struct {
	*memory
	name string
}

// TestMemoryKeepsTheContract: the fake is a store of sessions and artifacts like any other.
func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().RunReplicas(t, func() func() affinity.Store {
		m, replicas := newMemory(), 0
		return func() affinity.Store {
			replicas++
			return memoryStore{m, fmt.Sprint(replicas)}
		}
	})
}

func (memoryStore) Unavailable() bool { return false }

func (s memoryStore) Watch(ctx context.Context, move func(affinity.Session, affinity.Pin), gap func()) {
	s.mu.Lock()
	s.watchers = append(s.watchers, move)
	s.mu.Unlock()
	gap()
	<-ctx.Done()
}

func (s memoryStore) Bind(_ context.Context, all []affinity.Binding) (results []affinity.BindResult, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range all {
		results = append(results, s.pin(b, nil))
	}
	return results, nil
}

func (s memoryStore) Move(_ context.Context, to affinity.Binding, from affinity.Pin) (affinity.BindResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pin(to, &from), nil
}

// pin sets a pin if there is none, or only from.
func (s memoryStore) pin(b affinity.Binding, from *affinity.Pin) affinity.BindResult {
	now, users := time.Now(), affinity.NoGateway
	if from != nil {
		users = affinity.OtherGateways
	}
	if held := s.pins[b.Session]; held != nil && held.ends.After(now) {
		switch {
		case held.user == "" || held.Addr == "":
			users = affinity.NoGateway
		case held.user == s.name:
			users = affinity.ThisGateway
		default:
			users = affinity.OtherGateways
		}
		if from == nil || held.Pin != *from {
			return s.keep(held, b, from, users)
		}
	}
	next := &pin{Pin: b.Pin, since: now, ends: now.Add(b.TTL), maker: s.name, after: users == affinity.OtherGateways}
	if !b.Unused {
		next.user = s.name
	}
	if s.pins[b.Session] = next; from != nil {
		for _, move := range s.watchers {
			move(b.Session, b.Pin)
		}
	}
	return affinity.BindResult{Pin: b.Pin, New: true, Users: users}
}

// keep renews the current pin.
func (s memoryStore) keep(held *pin, b affinity.Binding, from *affinity.Pin, users affinity.Users) affinity.BindResult {
	held.ends = time.Now().Add(b.TTL)
	repeated := from != nil && held.Pin == b.Pin && held.maker == s.name
	switch {
	case repeated && held.after:
		users = affinity.OtherGateways
	case repeated:
		users = affinity.NoGateway
	case users == affinity.NoGateway && (from != nil || !b.Unused):
		held.user = s.name
	case users == affinity.OtherGateways && (from != nil || !b.Unused):
		held.user = "+"
	}
	return affinity.BindResult{Pin: held.Pin, New: repeated, Age: time.Since(held.since), Users: users}
}

func (s memoryStore) StoreLocations(_ context.Context, all []affinity.Location) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make([]bool, len(all))
	for i, l := range all {
		kept[i] = !l.OwnedOnly || l.Authoritative || s.owns(l.Artifact)
		if l.OwnedOnly {
			s.owns(l.Artifact)
		}
		if old := s.locations[key(l.Artifact)]; kept[i] && (l.Authoritative || !old.ends.After(time.Now())) {
			s.locations[key(l.Artifact)] = location{l.Addr, time.Now().Add(l.TTL)}
		}
	}
	return kept, nil
}

// owns reports whether the tenant of an artifact is its owner. The first tenant becomes that.
func (s memoryStore) owns(a affinity.Artifact) bool {
	first := affinity.Artifact{Capability: a.Capability, ID: a.ID}
	if _, known := s.owners[first]; !known {
		s.owners[first] = a.Tenant
	}
	return s.owners[first] == a.Tenant
}

// key is an artifact without the UID of its tenant.
func key(a affinity.Artifact) affinity.Artifact {
	a.UID = ""
	return a
}

func (s memoryStore) Locate(_ context.Context, a affinity.Artifact) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locations[key(a)]
	if !l.ends.After(time.Now()) {
		return "", nil
	}
	return l.addr, nil
}

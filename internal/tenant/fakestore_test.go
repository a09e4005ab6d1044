package tenant_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// store is a tenant.Store in memory that counts queries, and can be unavailable.
type store struct {
	mu          sync.Mutex
	keys        map[string]tenant.Key
	tenants     map[string]*tenant.Record
	version     uint64
	unavailable bool
	asked       int
	changed     func(uint64, tenant.Change)
	connected   func()
	hold        chan struct{} // nil: responses come at once
}

var errUnavailable = errors.New("unavailable")

func newStore(keys ...tenant.Key) *store {
	s := &store{keys: map[string]tenant.Key{}, tenants: map[string]*tenant.Record{}, version: 1}
	for _, k := range keys {
		s.keys[k.ID] = k
		s.tenants[k.Tenant] = &tenant.Record{UID: k.UID, ID: k.Tenant, Name: "first"}
	}
	return s
}

func (s *store) ask() error {
	s.mu.Lock()
	hold := s.hold
	s.asked++
	unavailable := s.unavailable
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if unavailable {
		return errUnavailable
	}
	return nil
}

func (s *store) FindKey(_ context.Context, id string) (*tenant.Key, error) {
	s.mu.Lock()
	k, ok := s.keys[id]
	s.mu.Unlock()
	if err := s.ask(); err != nil || !ok {
		return nil, err
	}
	return &k, nil
}

func (s *store) FindTenant(_ context.Context, id string) (*tenant.Record, error) {
	s.mu.Lock()
	r := s.tenants[id]
	s.mu.Unlock()
	if err := s.ask(); err != nil || r == nil {
		return nil, err
	}
	found := *r
	return &found, nil
}

// TestTheFakeKeepsTheContract: the fake is a store of tenants like any other.
func TestTheFakeKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() storetest.Store { return newStore() })
}

// CreateTenant and the following methods implement storetest.Store.
func (s *store) CreateTenant(_ context.Context, r *tenant.Record) error {
	stored := *r
	stored.Version, stored.Created = 1, time.Now()
	stored.Updated = stored.Created
	s.change(true, tenant.Change{Tenant: r.ID}, func() { s.tenants[r.ID] = &stored })
	return nil
}

func (s *store) UpdateTenant(_ context.Context, r *tenant.Record) error {
	stored := *r
	stored.Version++
	s.change(true, tenant.Change{Tenant: r.ID}, func() { s.tenants[r.ID] = &stored })
	return nil
}

func (s *store) DeleteTenant(_ context.Context, id string, _ int64, _ bool) error {
	s.change(true, tenant.Change{Tenant: id}, func() {
		delete(s.tenants, id)
		maps.DeleteFunc(s.keys, func(_ string, k tenant.Key) bool { return k.Tenant == id })
	})
	return nil
}

func (s *store) CreateKey(_ context.Context, k *tenant.Key) error {
	k.Created = time.Now()
	s.change(true, tenant.Change{Key: k.ID}, func() { s.keys[k.ID] = *k })
	return nil
}

func (s *store) RevokeKey(_ context.Context, _, id string) error {
	s.change(true, tenant.Change{Key: id}, func() {
		k := s.keys[id]
		k.Revoked = time.Now()
		s.keys[id] = k
	})
	return nil
}

func (s *store) Watch(ctx context.Context, changed func(uint64, tenant.Change), connected func()) {
	s.mu.Lock()
	s.changed, s.connected = changed, connected
	s.mu.Unlock()
	connected()
	<-ctx.Done()
}

func (s *store) Version(context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unavailable {
		return 0, errUnavailable
	}
	return s.version, nil
}

// change changes a record, and publishes it unless the message is to be lost.
func (s *store) change(tell bool, c tenant.Change, how func()) {
	s.mu.Lock()
	how()
	s.version++
	version, changed := s.version, s.changed
	s.mu.Unlock()
	if tell && changed != nil {
		changed(version, c)
	}
}

func (s *store) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *store) set(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// storedKey returns a key of a tenant of the store.
func storedKey(of string, change func(*tenant.Key)) (tenant.Key, string) {
	return issue(of, nil, func(k *tenant.Key) {
		k.UID, k.Created = "uid of "+of, time.Unix(1, 0)
		if change != nil {
			change(k)
		}
	})
}

// watching runs a test in a synctest bubble with a Stored that follows a store.
func watching(t *testing.T, s *store, test func(*testing.T, *tenant.Stored)) {
	t.Helper()
	check.Bubble(t, func(t *testing.T) {
		stored := tenant.NewStored(s, tenant.Options{TTL: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { stored.Watch(ctx) })
		synctest.Wait()
		test(t, stored)
		cancel()
		running.Wait()
	})
}

// elapse advances the time in a bubble.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// show authenticates a credential as a call does. at reports whether it was cached.
func show(t *testing.T, s tenant.Authenticator, credential string) (who tenant.Identity, atOnce bool, reason string) {
	t.Helper()
	who, known, refusal := s.Lookup(tenant.Credentials{Credential: credential, User: "ann"})
	if !known {
		who, refusal = s.Authenticate(t.Context(), tenant.Credentials{Credential: credential, User: "ann"})
	}
	return who, known, reasonOf(refusal)
}

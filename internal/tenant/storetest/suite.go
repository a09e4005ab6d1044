// Package storetest has the tests that every tenant.Store passes.
package storetest

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Store is a tenant.Store whose tenants and keys can be changed.
type Store interface {
	tenant.Store
	CreateTenant(ctx context.Context, r *tenant.Record) error
	UpdateTenant(ctx context.Context, r *tenant.Record) error
	DeleteTenant(ctx context.Context, id string, version int64, force bool) error
	CreateKey(ctx context.Context, k *tenant.Key) error
	RevokeKey(ctx context.Context, of, id string) error
}

// Suite returns the tests.
func Suite() contract.Suite[Store] {
	return contract.Suite[Store]{
		"tenants are found":                  testTenants,
		"keys are found":                     testKeys,
		"changes are notified and versioned": testFeed,
	}
}

// Record returns a tenant as an operator creates it.
func Record(id, uid string) *tenant.Record {
	grants, _ := tenant.ParseGrants([]string{"weather", "gen-*"})
	return &tenant.Record{
		ID: id, UID: uid, Capabilities: grants, Name: "Acme & Co: {1}", Limits: &tenant.Limits{Messages: 7,
			Bounds: tenant.Bounds{CallsPerSecond: 5}},
	}
}

// Key returns a key of a tenant.
func Key(of, uid string) *tenant.Key {
	id, secret := tenant.NewCredential()
	k := &tenant.Key{ID: id, Tenant: of, Name: "Ann's", Hash: tenant.HashOf(secret, nil),
		Scopes: tenant.Invoke | tenant.Admin, Asserts: tenant.User}
	k.UID, k.CreatedBy = uid, "operator"
	return k
}

func findTenant(t *testing.T, s Store, id string) *tenant.Record {
	t.Helper()
	r, err := s.FindTenant(t.Context(), id)
	check.Must(t, err)
	return r
}

func findKey(t *testing.T, s Store, id string) *tenant.Key {
	t.Helper()
	k, err := s.FindKey(t.Context(), id)
	check.Must(t, err)
	return k
}

func testTenants(t *testing.T, open func() Store) {
	ctx, a, b := t.Context(), open(), open()
	if r := findTenant(t, b, "acme"); r != nil {
		t.Errorf("before it was created: %+v", r)
	}
	check.Must(t, a.CreateTenant(ctx, Record("acme", "u1")))
	r, want := findTenant(t, b, "acme"), Record("acme", "u1")
	if r == nil {
		t.Fatal("it is not found")
	}
	want.Version, want.Created, want.Updated = 1, r.Created, r.Updated
	if !reflect.DeepEqual(r, want) || time.Since(r.Created).Abs() > time.Hour || !r.Updated.Equal(r.Created) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	r.Disabled, r.Name, r.Limits, r.UpdatedBy = true, "", nil, "ann"
	if got := findTenant(t, b, "acme"); got.Disabled || got.Limits == nil {
		t.Errorf("a change of a returned record changes the store: %+v", got)
	}
	check.Must(t, a.UpdateTenant(ctx, r))
	if got := findTenant(t, b, "acme"); !got.Disabled || got.Name != "" || got.Version != 2 || got.UID != "u1" ||
		got.Limits != nil || got.UpdatedBy != "ann" {
		t.Errorf("%+v", got)
	}
	check.Must(t, a.DeleteTenant(ctx, "acme", 2, false))
	if got := findTenant(t, b, "acme"); got != nil {
		t.Errorf("after it was deleted: %+v", got)
	}
}

func testKeys(t *testing.T, open func() Store) {
	ctx, a, b := t.Context(), open(), open()
	check.Must(t, a.CreateTenant(ctx, Record("acme", "u1")))
	k, ofFile := Key("acme", "u1"), Key("filed", "")
	if got := findKey(t, b, k.ID); got != nil {
		t.Errorf("before it was created: %+v", got)
	}
	k.Expires = time.UnixMilli(time.Now().Add(time.Hour).UnixMilli())
	check.Must(t, a.CreateKey(ctx, k))
	check.Must(t, a.CreateKey(ctx, ofFile))
	if got := findKey(t, b, k.ID); !reflect.DeepEqual(got, k) || k.Created.IsZero() {
		t.Errorf("got  %+v\nwant %+v", got, k)
	}
	check.Must(t, b.RevokeKey(ctx, "acme", k.ID))
	if got := findKey(t, a, k.ID); got == nil || got.Revoked.IsZero() {
		t.Errorf("revoked: %+v", got)
	}
	check.Must(t, a.DeleteTenant(ctx, "acme", 0, true))
	if got := findKey(t, b, k.ID); got != nil {
		t.Errorf("of a deleted tenant: %+v", got)
	}
	if got := findKey(t, b, ofFile.ID); got == nil {
		t.Error("the key of another tenant is deleted")
	}
}

func testFeed(t *testing.T, open func() Store) {
	type news struct {
		version uint64
		change  tenant.Change
	}
	a, b := open(), open()
	ctx, cancel := context.WithCancel(t.Context())
	connected, changes := make(chan struct{}, 10), make(chan news, 10)
	var watching sync.WaitGroup
	watching.Go(func() {
		b.Watch(ctx, func(v uint64, c tenant.Change) { changes <- news{v, c} }, func() { connected <- struct{}{} })
	})
	check.Received(t, connected, "the subscription")
	last, err := b.Version(ctx)
	check.Must(t, err)
	k := Key("acme", "u1")
	for _, step := range []struct {
		make func() error
		want tenant.Change
	}{
		{func() error { return a.CreateTenant(ctx, Record("acme", "u1")) }, tenant.Change{Tenant: "acme"}},
		{func() error { return a.CreateKey(ctx, k) }, tenant.Change{Key: k.ID}},
		{func() error { return a.RevokeKey(ctx, "acme", k.ID) }, tenant.Change{Key: k.ID}},
		{func() error { return a.UpdateTenant(ctx, findTenant(t, b, "acme")) }, tenant.Change{Tenant: "acme"}},
	} {
		check.Must(t, step.make())
		got := check.Received(t, changes, "a change")
		if last++; got != (news{last, step.want}) {
			t.Errorf("got %+v, want %+v with version %d", got, step.want, last)
		}
		if version, err := b.Version(ctx); err != nil || version != last {
			t.Errorf("version %d, want %d; %v", version, last, err)
		}
	}
	cancel()
	check.Ended(t, &watching, "the end of the watch")
}

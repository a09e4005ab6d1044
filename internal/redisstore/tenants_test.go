package redisstore_test

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestTenantStore: replicas share tenants and keys.
func TestTenantStore(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) storetest.Store { return s.Tenants() })
}

func TestTenants(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		a, b := open().Tenants(), open().Tenants()
		check.Must(t, a.CreateTenant(ctx, storetest.Record("acme", "u1")))
		if err := b.CreateTenant(ctx, storetest.Record("acme", "u2")); !errors.Is(err, tenant.ErrTenantExists) {
			t.Errorf("again: %v", err)
		}
		r, err := b.FindTenant(ctx, "acme")
		check.Must(t, err)
		check.Must(t, a.UpdateTenant(ctx, r))
		if err := b.UpdateTenant(ctx, r); !errors.Is(err, tenant.ErrTenantChanged) {
			t.Errorf("of an old version: %v", err)
		}
		if err := a.UpdateTenant(ctx, storetest.Record("globex", "u")); !errors.Is(err, tenant.ErrTenantUnknown) {
			t.Errorf("of nobody: %v", err)
		}
		if err := a.DeleteTenant(ctx, "acme", 1, false); !errors.Is(err, tenant.ErrTenantChanged) {
			t.Errorf("of an old version: %v", err)
		}
		check.Must(t, a.DeleteTenant(ctx, "acme", 2, false))
		if err := b.DeleteTenant(ctx, "acme", 0, true); !errors.Is(err, tenant.ErrTenantUnknown) {
			t.Errorf("again: %v", err)
		}
		if page, _, err := b.ListTenants(ctx, "", 10); len(page) != 0 || err != nil {
			t.Errorf("after: %v, %v", page, err)
		}
	})
}

func TestTenantsArePaged(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		s := open().Tenants()
		for i := range 7 {
			check.Must(t, s.CreateTenant(ctx, storetest.Record("t"+strconv.Itoa(i), "u")))
		}
		var ids []string
		var pages int
		for after := ""; pages == 0 || after != ""; pages++ {
			page, next, err := s.ListTenants(ctx, after, 3)
			check.Must(t, err)
			for _, r := range page {
				ids = append(ids, r.ID)
			}
			after = next
		}
		if !slices.Equal(ids, []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6"}) || pages != 3 {
			t.Errorf("%v in %d pages", ids, pages)
		}
	})
}

func TestAPIKeys(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		a, b := open().Tenants(), open().Tenants()
		check.Must(t, a.CreateTenant(ctx, storetest.Record("acme", "u1")))
		for of, uid := range map[string]string{"acme": "u0", "globex": "u1"} {
			k := storetest.Key(of, uid)
			if err := a.CreateKey(ctx, k); !errors.Is(err, tenant.ErrTenantUnknown) {
				t.Errorf("of %s, %s: %v", of, uid, err)
			}
			if got, err := b.FindKey(ctx, k.ID); got != nil || err != nil {
				t.Errorf("of %s, %s: %v, %v", of, uid, got, err)
			}
		}
		k, ofFile := storetest.Key("acme", "u1"), storetest.Key("filed", "")
		check.Must(t, a.CreateKey(ctx, k))
		check.Must(t, a.CreateKey(ctx, ofFile))
		if got, _, err := b.ListKeys(ctx, "filed", "", "", 10); err != nil || len(got) != 1 || got[0].ID != ofFile.ID {
			t.Errorf("got %v, %v", got, err)
		}
		for _, step := range []struct {
			of   string
			want error
		}{{"globex", tenant.ErrKeyUnknown}, {"acme", nil}, {"acme", nil}} {
			if err := b.RevokeKey(ctx, step.of, k.ID); !errors.Is(err, step.want) {
				t.Errorf("revoked by %s: %v", step.of, err)
			}
		}
		if err := a.DeleteTenant(ctx, "acme", 0, false); !errors.Is(err, tenant.ErrTenantHasKeys) {
			t.Errorf("with a key: %v", err)
		}
	})
}

// TestKeysOfAnEarlierTenant: they do not belong to the next tenant with its id.
func TestKeysOfAnEarlierTenant(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		s := open().Tenants()
		old := storetest.Key("acme", "")
		check.Must(t, s.CreateKey(ctx, old)) // of a tenant of the file
		check.Must(t, s.CreateTenant(ctx, storetest.Record("acme", "u1")))
		if got, _, err := s.ListKeys(ctx, "acme", "u1", "", 10); err != nil || len(got) != 0 {
			t.Errorf("got %v, %v", got, err)
		}
		if got, err := s.FindKey(ctx, old.ID); got != nil || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestRotation(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		a, b := open().Tenants(), open().Tenants()
		check.Must(t, a.CreateTenant(ctx, storetest.Record("acme", "u1")))
		old, next, third := storetest.Key("acme", "u1"), storetest.Key("acme", "u1"), storetest.Key("acme", "u1")
		check.Must(t, a.CreateKey(ctx, old))
		next.Replaces = old.ID
		check.Must(t, a.RotateKey(ctx, old.ID, next, time.Hour))
		got, err := b.FindKey(ctx, old.ID)
		check.Must(t, err)
		if left := time.Until(got.Until); got.ReplacedBy != next.ID || left < 30*time.Minute || left > 90*time.Minute ||
			!got.Replaced.Equal(got.Until.Add(-time.Hour)) {
			t.Errorf("the old one: %+v; left %+v", got, left)
		}
		if got, err = b.FindKey(ctx, next.ID); err != nil || got.Replaces != old.ID || !got.Until.IsZero() ||
			!got.Replaced.IsZero() {
			t.Errorf("the new one: %+v, %v", got, err)
		}
		revoked, expired := storetest.Key("acme", "u1"), storetest.Key("acme", "u1")
		expired.Expires = time.Now().Add(-time.Hour)
		check.Must(t, a.CreateKey(ctx, revoked))
		check.Must(t, a.CreateKey(ctx, expired))
		check.Must(t, a.RevokeKey(ctx, "acme", revoked.ID))
		others := storetest.Key("filed", "")
		check.Must(t, a.CreateKey(ctx, others))
		for id, want := range map[string]error{
			old.ID: tenant.ErrKeyRotated, revoked.ID: tenant.ErrKeyExpired, expired.ID: tenant.ErrKeyExpired,
			"abcdefghijklmnop": tenant.ErrKeyUnknown, others.ID: tenant.ErrKeyUnknown,
		} {
			if err := b.RotateKey(ctx, id, third, 0); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", id, err, want)
			}
			if got, err := a.FindKey(ctx, third.ID); got != nil || err != nil {
				t.Errorf("%s: the new one stays: %v, %v", id, got, err)
			}
		}
		if page, _, err := a.ListKeys(ctx, "acme", "u1", "", 100); err != nil || len(page) != 4 {
			t.Errorf("got %v, %v", page, err)
		}
	})
}

// TestManyRotateOneKey: one rotation succeeds, nothing is left of the others, and a concurrent revocation
// applies.
func TestManyRotateOneKey(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		a, b := open().Tenants(), open().Tenants()
		check.Must(t, a.CreateTenant(ctx, storetest.Record("acme", "u1")))
		old := storetest.Key("acme", "u1")
		check.Must(t, a.CreateKey(ctx, old))
		var rotated atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			s := []*redisstore.Tenants{a, b}[i%2]
			all.Go(func() {
				switch err := s.RotateKey(ctx, old.ID, storetest.Key("acme", "u1"), time.Hour); {
				case err == nil:
					rotated.Add(1)
				case !errors.Is(err, tenant.ErrKeyRotated) && !errors.Is(err, tenant.ErrKeyExpired):
					t.Error(err)
				}
				if err := s.RevokeKey(ctx, "acme", old.ID); err != nil {
					t.Error(err)
				}
			})
		}
		check.Ended(t, &all, "the end of the rotations")
		page, _, err := b.ListKeys(ctx, "acme", "u1", "", 100)
		if n := int(rotated.Load()); err != nil || n != 1 || len(page) != 2 {
			t.Errorf("%d rotated it, %d keys, %v", n, len(page), err)
		}
		if got, err := a.FindKey(ctx, old.ID); err != nil || got.Revoked.IsZero() || got.ReplacedBy == "" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestRecordsThatCannotBeRead: a record with any malformed field is absent.
func TestRecordsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	good := func() map[string]string {
		return map[string]string{
			"tenant": "acme", "uid": "u",
			"hash":   "sha256:f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7",
			"scopes": "invoke,read", "asserts": "user",
			"created": "1", "updated": "1", "version": "1", "disabled": "false", "capabilities": "weather gen-*",
			"limits":  `{"messages":1}`,
			"expires": "1", "ends": "1", "revoked": "1",
		}
	}
	if k, r := redisstore.ParseStored(good()); !k || !r {
		t.Fatal(k, r)
	}
	for field, of := range map[string]string{
		"tenant": "key", "hash": "key", "scopes": "key", "asserts": "key", "expires": "key", "ends": "key",
		"revoked": "key",
		"created": "both",
		"uid":     "tenant", "updated": "tenant", "version": "tenant", "disabled": "tenant", "capabilities": "tenant",
		"limits": "tenant",
	} {
		f := good()
		if f[field] = "[-1"; field == "tenant" || field == "uid" {
			f[field] = ""
		}
		if k, r := redisstore.ParseStored(f); k != (of == "tenant") || r != (of == "key") {
			t.Errorf("%s: a key %v, a tenant %v", field, k, r)
		}
	}
}

// FuzzStored: no content of Redis causes a panic, or is accepted as part of a record.
func FuzzStored(f *testing.F) {
	f.Add("tenant", "acme", "hash", "sha256:00", "scopes", "invoke,", "created", "1")
	f.Add("uid", "u", "disabled", "true", "limits", "{}", "version", "1")
	f.Fuzz(func(t *testing.T, a, av, b, bv, c, cv, d, dv string) {
		fields := map[string]string{a: av, b: bv, c: cv, d: dv}
		k, r := redisstore.ParseStored(fields)
		if _, hashed := tenant.ParseHash(fields["hash"]); k && (!hashed || fields["tenant"] == "" ||
			fields["created"] == "") {
			t.Errorf("%q is a key", fields)
		}
		if r { // it needs five
			t.Errorf("%q is a tenant", fields)
		}
	})
}

package redisstore_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestForgedCallers: forged keys and tenants are rejected: an attacker's API key, one with more scopes, one
// with another id, and a tenant with more capabilities.
func TestForgedCallers(t *testing.T) {
	t.Parallel()
	f := newForging(t)
	all := f.store.Tenants()
	grants, err := tenant.ParseGrants([]string{"weather"})
	check.Must(t, err)
	for _, id := range []string{"acme", "other"} {
		if err := all.CreateTenant(t.Context(), &tenant.Record{ID: id, UID: "uid-" + id, Name: id,
			Capabilities: grants}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(s *redisstore.Tenants, id string) {
		t.Helper()
		k := &tenant.Key{ID: id, Tenant: "acme", Hash: tenant.HashOf("secret", nil), Scopes: tenant.Invoke}
		k.UID = "uid-acme"
		check.Must(t, s.CreateKey(t.Context(), k))
	}
	find := func(what, id string, there bool) {
		t.Helper()
		if k, err := all.FindKey(t.Context(), id); err != nil || (k != nil) != there {
			t.Errorf("%s: %+v, %v", what, k, err)
		}
	}
	create(all, "good")
	find("a good one", "good", true)
	create(f.plain.Tenants(), "forged")
	find("one made without a key", "forged", false)
	create(all, "more")
	f.redis("HSET", f.find("{key:more}:record"), "scopes", "invoke,approve")
	find("with more scopes", "more", false)
	create(all, "moved")
	f.redis("HSET", f.find("{key:moved}:record"), "tenant", "other", "uid", "uid-other")
	find("of another tenant", "moved", false)
	f.redis("COPY", f.find("{key:good}:record"), strings.Replace(f.find("{key:good}:record"), "good", "copied", 1))
	find("a copy", "copied", false)
	f.rejected(redisstore.KeyRecord, 4)
	check.Must(t, all.RevokeKey(t.Context(), "acme", "good"))
	if k, err := all.FindKey(t.Context(), "good"); err != nil || k == nil || k.Revoked.IsZero() {
		t.Errorf("a revoked one: %+v, %v", k, err)
	}
	r, err := all.FindTenant(t.Context(), "acme")
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	r.Name, r.UpdatedBy = "changed", "ann"
	check.Must(t, all.UpdateTenant(t.Context(), r))
	if r, err := all.FindTenant(t.Context(), "acme"); err != nil || r == nil || r.Name != "changed" {
		t.Errorf("updated: %+v, %v", r, err)
	}
	record := f.find("{acme:tenant}:record")
	for _, forged := range [][2]string{{"capabilities", "*"}, {"by", "eve"}, {"by", ""}} {
		held, err := f.client.HGet(t.Context(), record, forged[0]).Result()
		check.Must(t, err)
		f.redis("HSET", record, forged[0], forged[1])
		if r, err := all.FindTenant(t.Context(), "acme"); err != nil || r != nil {
			t.Errorf("with %q: %+v, %v", forged, r, err)
		}
		f.redis("HSET", record, forged[0], held)
	}
	f.rejected(redisstore.TenantRecord, 3)
	if err := all.DeleteTenant(t.Context(), "other", 0, true); err != nil {
		t.Error(err)
	}
}

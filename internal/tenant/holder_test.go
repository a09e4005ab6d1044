package tenant_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/tenant"
)

// TestHolder: what began with an API key ends with the key's permission, be it of the file or of the store.
func TestHolder(t *testing.T) {
	t.Parallel()
	stored, _ := storedKey("acme", nil)
	s := newStore(stored)
	watching(t, s, func(t *testing.T, all *tenant.Stored) {
		now := epoch
		file := tenant.NewKeys(func() time.Time { return now })
		key, _ := issue("globex", nil, func(k *tenant.Key) { k.Expires = epoch.Add(time.Minute) })
		file.Replace([]tenant.Key{key}, map[string]*tenant.Settings{"globex": {ID: "globex"}}, nil)
		holders := tenant.NewAuthenticators(tenant.Sources{File: file, Stored: all})
		expect := func(what, id, reason string) {
			t.Helper()
			who, refusal := holders.Holder(t.Context(), id)
			if reasonOf(refusal) != reason || reason == "" && (who.Key != id || who.Scopes != tenant.Invoke) {
				t.Errorf("%s: %+v, %q, want %q", what, who, reasonOf(refusal), reason)
			}
		}
		expect("no id", "key", "CREDENTIAL_INVALID")
		expect("of the file", key.ID, "")
		now = epoch.Add(time.Minute)
		expect("expired", key.ID, "CREDENTIAL_EXPIRED")
		now = epoch
		file.Replace([]tenant.Key{key}, map[string]*tenant.Settings{"globex": {ID: "globex", Disabled: true}}, nil)
		expect("of a disabled tenant", key.ID, "TENANT_DISABLED")
		file.Replace(nil, nil, nil)
		expect("taken out", key.ID, "CREDENTIAL_INVALID")

		expect("of the store", stored.ID, "")
		change := func(how func(*tenant.Key)) {
			s.change(true, tenant.Change{Key: stored.ID}, func() {
				k := stored
				how(&k)
				s.keys[k.ID] = k
			})
		}
		change(func(k *tenant.Key) { k.Until = time.Now() })
		expect("replaced", stored.ID, "CREDENTIAL_EXPIRED")
		change(func(k *tenant.Key) { k.UID = "of one before" })
		expect("of an earlier tenant", stored.ID, "CREDENTIAL_INVALID")
		change(func(k *tenant.Key) { k.Revoked = time.Now() })
		expect("revoked", stored.ID, "CREDENTIAL_INVALID")
	})
}

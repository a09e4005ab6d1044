package tenant_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/tenant"
)

// grantOf returns a grant that a tenant's key requests.
func grantOf(k *tenant.Key, until time.Time) tenant.SignedGrant {
	return tenant.SignedGrant{Download: tenant.Download{Capability: "caps", Artifact: "a"}, Tenant: k.Tenant, Key: k.ID,
		Expires: until}
}

// TestSignaturesOfKeysOfTheFile: signatures for a key of the file become invalid when that key may no longer download;
// other signatures stay valid.
func TestSignaturesOfKeysOfTheFile(t *testing.T) {
	t.Parallel()
	now := epoch
	clock := func() time.Time { return now }
	key, _ := issue("acme", nil, func(k *tenant.Key) { k.Expires = epoch.Add(time.Minute) })
	other, _ := issue("acme", nil, nil)
	keys := keysOf(nil, key, other)
	tenants := directory{"acme": {ID: "acme"}, "globex": {ID: "globex"}}
	s := signaturesOf(tenants, tenant.NewAuthenticators(tenant.Sources{File: keys}), &sharedKeys{}, clock)
	until := epoch.Add(time.Hour)
	signed := sign(t, s, grantOf(&key, until))
	ofCertificate := grantOf(&key, until)
	ofCertificate.Key = "paymentsservices" // as long as a key's id
	unkeyed := sign(t, s, ofCertificate)
	expect := func(what string, good bool) {
		t.Helper()
		if who, refusal := showSigned(s, signed); (refusal == nil) != good ||
			!good && reasonOf(refusal) != "SIGNATURE_INVALID" {
			t.Errorf("%s: %+v, %q", what, who, reasonOf(refusal))
		}
		if _, refusal := showSigned(s, unkeyed); refusal != nil {
			t.Errorf("%s: no API key asked for it: %s", what, reasonOf(refusal))
		}
	}
	expect("at first", true)
	keys.Replace([]tenant.Key{other}, nil, nil)
	expect("taken out", false)
	keys.Replace([]tenant.Key{key}, nil, nil)
	expect("put back", true)
	reads, moved := key, key
	reads.Scopes, moved.Tenant = tenant.Read, "globex"
	keys.Replace([]tenant.Key{reads}, nil, nil)
	expect("may only read", false)
	keys.Replace([]tenant.Key{moved}, nil, nil)
	expect("another tenant's", false)
	keys.Replace([]tenant.Key{key}, nil, nil)
	now = epoch.Add(time.Minute)
	expect("expired", false)
}

// TestSignaturesOfStoredKeys: signatures for a stored key become invalid at every replica within a second of the
// key's end, also if the message is lost.
func TestSignaturesOfStoredKeys(t *testing.T) {
	t.Parallel()
	for _, tell := range []bool{true, false} {
		key, _ := storedKey("acme", nil)
		s := newStore(key)
		watching(t, s, func(t *testing.T, stored *tenant.Stored) {
			all := tenant.NewAuthenticators(tenant.Sources{File: tenant.NewKeys(nil), Stored: stored})
			signatures := signaturesOf(stored.Directory(), all, &sharedKeys{}, nil)
			token := sign(t, signatures, grantOf(&key, time.Now().Add(time.Hour)))
			expect := func(what, reason string) {
				t.Helper()
				if !tell {
					elapse(time.Second + time.Millisecond)
				}
				for range 2 { // from the store, and from memory
					if _, refusal := showSigned(signatures, token); reasonOf(refusal) != reason {
						t.Errorf("told %v: %s: %q", tell, what, reasonOf(refusal))
					}
				}
			}
			expect("good", "")
			asked := s.questions()
			expect("known", "")
			if tell && s.questions() != asked {
				t.Error("what is known is asked for again")
			}
			change := func(how func(*tenant.Key)) {
				s.change(tell, tenant.Change{Key: key.ID}, func() {
					k := s.keys[key.ID]
					how(&k)
					s.keys[key.ID] = k
				})
			}
			change(func(k *tenant.Key) { k.Until = time.Now().Add(time.Minute) })
			expect("replaced, and holds yet", "")
			elapse(time.Minute)
			expect("replaced", "SIGNATURE_INVALID")
			change(func(k *tenant.Key) { k.Until = time.Time{} })
			expect("good again", "")
			change(func(k *tenant.Key) { k.Revoked = time.Now() })
			expect("revoked", "SIGNATURE_INVALID")
			s.change(tell, tenant.Change{Key: key.ID}, func() { delete(s.keys, key.ID) })
			expect("gone", "SIGNATURE_INVALID")
		})
	}
}

// TestSignaturesWhileTheStoreIsUnavailable: signatures for cached keys stay valid, others are rejected.
func TestSignaturesWhileTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	key, _ := storedKey("acme", nil)
	s := newStore(key)
	watching(t, s, func(t *testing.T, stored *tenant.Stored) {
		all, shared := tenant.NewAuthenticators(tenant.Sources{File: tenant.NewKeys(nil), Stored: stored}),
			&sharedKeys{}
		signatures := signaturesOf(stored.Directory(), all, shared, nil)
		token := sign(t, signatures, grantOf(&key, time.Now().Add(time.Hour)))
		s.set(func() { s.unavailable = true })
		elapse(5 * time.Second)
		if _, refusal := showSigned(signatures, token); refusal != nil {
			t.Errorf("known: %q", reasonOf(refusal))
		}
		if _, refusal := signatures.Sign(t.Context(),
			grantOf(&tenant.Key{ID: "abcdefghijklmnop", Tenant: "acme"},
				time.Now())); reasonOf(refusal) != "IDENTITY_UNAVAILABLE" {
			t.Errorf("signed for a key of which nothing is known: %q", reasonOf(refusal))
		}
	})
}

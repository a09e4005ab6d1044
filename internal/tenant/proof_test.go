package tenant_test

import (
	"testing"

	"github.com/capgate/capgate/internal/tenant"
)

// all returns authenticators with these keys alone.
func all(keys *tenant.Keys) tenant.Authenticator {
	return tenant.NewAuthenticators(tenant.Sources{File: keys})
}

// TestAProofIsOfOneKey: a connection's proof saves hashes, and admits nothing that a hash would reject.
func TestAProofIsOfOneKey(t *testing.T) {
	t.Parallel()
	key, credential := issue("acme", nil, nil)
	other, otherCredential := issue("acme", nil, nil)
	keys, proof := keysOf(nil, key, other), new(tenant.Proof)
	authenticators := all(keys)
	show := func(what, credential string, want bool) {
		t.Helper()
		identity, known, refusal := authenticators.Lookup(tenant.Credentials{Credential: credential, Proof: proof})
		if !known || want != (refusal == nil) || want && identity.Key != credential[3:19] {
			t.Errorf("%s: %+v, known %v, %v", what, identity, known, refusal)
		}
	}
	for range 2 {
		show("the key", credential, true)
	}
	for i := range credential {
		wrong := []byte(credential)
		if wrong[i] ^= 3; i >= 20 { // of the secret
			show("a wrong secret", string(wrong), false)
		}
	}
	show("the secret of another", credential[:20]+otherCredential[20:], false)
	show("another key", otherCredential, true)
	show("the key again", credential, true)

	if _, _, refusal := all(keysOf(nil, other)).Lookup(tenant.Credentials{Credential: credential,
		Proof: proof}); refusal == nil {
		t.Error("a proof is valid for other keys")
	}
	show("the key, after that", credential, true)

	changed := key
	changed.Hash = other.Hash
	keys.Replace([]tenant.Key{changed}, nil, nil)
	show("a key with another secret", credential, false)
	show("its secret", credential[:20]+otherCredential[20:], true)
	keys.Replace(nil, nil, nil)
	show("a key that is gone", credential, false)
	keys.Replace([]tenant.Key{key}, nil, []byte("a pepper of 16 B"))
	show("a key that is back", credential, true)
}

// BenchmarkLookup is the authentication of a call, without and with the proof of its connection.
func BenchmarkLookup(b *testing.B) {
	key, credential := issue("acme", nil, nil)
	keys := all(keysOf(nil, key))
	for name, proof := range map[string]*tenant.Proof{"hash": nil, "proof": new(tenant.Proof)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := tenant.Credentials{Credential: credential, Proof: proof}
				if _, _, refusal := keys.Lookup(c); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}

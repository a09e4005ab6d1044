package token

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of what an issuer publishes.
const (
	maxKeys = 100
	minRSA  = 2048 // bits, RFC 7518 §3.3
	maxRSA  = 8192 // bits: a check of a longer one takes long
)

// key is one that an issuer signs with.
type key struct {
	id     string // its kid, which may be ""
	alg    string // the only one it is for; "": any that fits
	print  string // its RFC 7638 thumbprint
	public any
	gone   atomic.Bool // the issuer does not publish it any more
}

// keySet is never changed, but for gone of its keys.
type keySet struct {
	keys []*key
	at   time.Time // when the issuer said so
}

// parseKeys reads a JWK Set. Keys that cannot be used are left out; it is an error if none
// is left, for then it is not the issuer that answered, or it answered nonsense.
func parseKeys(data []byte) ([]*key, error) {
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, errors.New("the keys are no JWK Set")
	}
	if len(set.Keys) > maxKeys {
		return nil, errors.New("there are more than 100 keys")
	}
	var keys []*key
	for _, text := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(text) != nil || k.Use != "" && k.Use != "sig" || !k.IsPublic() || !strong(k.Key) {
			continue
		}
		print, err := k.Thumbprint(crypto.SHA256)
		if err != nil {
			continue
		}
		keys = append(keys, &key{id: k.KeyID, alg: k.Algorithm, print: string(print), public: k.Key})
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no public key for signatures among the keys")
	}
	return keys, nil
}

func strong(public any) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSA && k.N.BitLen() <= maxRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// after makes the set that follows s, which may be nil. A key that stays is the same one.
func (s *keySet) after(keys []*key, at time.Time) *keySet {
	next := &keySet{keys: keys, at: at}
	if s == nil {
		return next
	}
	for _, old := range s.keys {
		stays := false
		for i, k := range keys {
			if k.print == old.print && k.id == old.id && k.alg == old.alg {
				keys[i], stays = old, true
			}
		}
		if !stays {
			old.gone.Store(true)
		}
	}
	return next
}

// maxKeyTries is how many keys are tried for a token that does not say which.
const maxKeyTries = 4

// candidates are the keys that may have signed a token.
func (s *keySet) candidates(u *unverified) (found []*key) {
	for _, k := range s.keys {
		if (u.kid == "" || k.id == u.kid) && k.fits(u.alg) && len(found) < maxKeyTries {
			found = append(found, k)
		}
	}
	return found
}

// fits says whether a key may be used with an algorithm, so that neither is taken for
// another (RFC 8725 §3.1).
func (k *key) fits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return public.Curve == map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(),
			"ES512": elliptic.P521()}[alg]
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// trial checks a signature with some keys. It implements oidc.KeySet for one token.
type trial struct {
	keys []*key
	alg  string
	by   *key // whose signature it is
}

func (t *trial) VerifySignature(_ context.Context, raw string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(t.alg)})
	if err != nil {
		return nil, err
	}
	for _, k := range t.keys {
		if payload, err := signed.Verify(k.public); err == nil {
			t.by = k
			return payload, nil
		}
	}
	return nil, errors.New("the signature is not that of the key")
}

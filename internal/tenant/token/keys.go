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
	maxRSA  = 8192 // bits: longer ones are costly to verify
)

// key is a public key of an issuer.
type key struct {
	id         string // its kid, which may be ""
	alg        string // its only algorithm; "": any that fits
	thumbprint string // RFC 7638 thumbprint
	public     any
	gone       atomic.Bool // it was withdrawn
}

// keySet is immutable, except for gone of its keys.
type keySet struct {
	keys []*key
	at   time.Time // time of the fetch
}

// parseKeys parses a JWK Set. Unusable keys are skipped. It is an error if none is left, since then another server
// answered, or the response is wrong.
func parseKeys(data []byte) ([]*key, error) {
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, errors.New("the keys are not a JWK Set")
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
		thumbprint, err := k.Thumbprint(crypto.SHA256)
		if err != nil {
			continue
		}
		keys = append(keys, &key{id: k.KeyID, alg: k.Algorithm, thumbprint: string(thumbprint), public: k.Key})
	}
	if len(keys) == 0 {
		return nil, errors.New("no key is a public key for signatures")
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

// after returns the set that follows s, which may be nil. Keys in both sets stay the same objects.
func (s *keySet) after(keys []*key, at time.Time) *keySet {
	next := &keySet{keys: keys, at: at}
	if s == nil {
		return next
	}
	for _, old := range s.keys {
		stays := false
		for i, k := range keys {
			if k.thumbprint == old.thumbprint && k.id == old.id && k.alg == old.alg {
				keys[i], stays = old, true
			}
		}
		if !stays {
			old.gone.Store(true)
		}
	}
	return next
}

// maxKeyTries bounds the keys that are tried for a token without a kid.
const maxKeyTries = 4

// candidates returns the keys that may have signed a token.
func (s *keySet) candidates(u *unverified) (found []*key) {
	for _, k := range s.keys {
		if (u.kid == "" || k.id == u.kid) && k.fits(u.alg) && len(found) < maxKeyTries {
			found = append(found, k)
		}
	}
	return found
}

// fits reports whether a key may be used with an algorithm. Algorithms of other key types are rejected (RFC 8725
// §3.1).
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

// trial verifies a signature with some keys. It implements oidc.KeySet for one token.
type trial struct {
	keys []*key
	alg  string
	by   *key // the key of the signature
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
	return nil, errors.New("no key matches the signature")
}

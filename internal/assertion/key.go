package assertion

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/capgate/capgate/internal/lib/sharedkey"
)

// size is the length of a coordinate, and of a half of a signature, in bytes.
const size = 32

var encoding = base64.RawURLEncoding

// jwk is a public key (RFC 7517). Its first four fields are those of its thumbprint, in the order of RFC 7638.
type jwk struct {
	Curve string `json:"crv"`
	Type  string `json:"kty"`
	X     string `json:"x"`
	Y     string `json:"y"`
	ID    string `json:"kid,omitempty"`
	Use   string `json:"use,omitempty"`
	Alg   string `json:"alg,omitempty"`
}

// key signs assertions.
type key struct {
	private *ecdsa.PrivateKey
	public  jwk
	head    string // the first part of its tokens
}

// newKey returns the key of a seed, which is always the same.
func newKey(seed []byte) *key {
	k := &key{private: privateOf(seed)}
	point, _ := k.private.PublicKey.Bytes() // 4, x, y; P-256 has no error
	k.public = jwk{Curve: "P-256", Type: "EC", X: encoding.EncodeToString(point[1 : 1+size]),
		Y: encoding.EncodeToString(point[1+size:])}
	text, _ := json.Marshal(k.public) // strings can always be encoded
	thumbprint := sha256.Sum256(text)
	k.public.ID, k.public.Use, k.public.Alg = encoding.EncodeToString(thumbprint[:]), "sig", "ES256"
	k.head = encoding.EncodeToString([]byte(`{"alg":"ES256","kid":"`+k.public.ID+`","typ":"JWT"}`)) + "."
	return k
}

// privateOf returns the private key of a seed, by rejection sampling (FIPS 186-5, A.2.2). Of 4 billion seeds, one needs
// a second attempt.
func privateOf(seed []byte) *ecdsa.PrivateKey {
	for attempt := 0; ; attempt++ {
		scalar := sharedkey.Derive([][]byte{seed}, "P-256 "+strconv.Itoa(attempt))[0]
		if k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar); err == nil {
			return k
		}
	}
}

// sign returns the token with a payload, as JWS in the compact form (RFC 7515).
func (k *key) sign(payload []byte) (string, error) {
	signed := encoding.AppendEncode([]byte(k.head), payload)
	hash := sha256.Sum256(signed)
	r, s, err := ecdsa.Sign(rand.Reader, k.private, hash[:])
	if err != nil {
		return "", err
	}
	var signature [2 * size]byte // RFC 7518 §3.4
	r.FillBytes(signature[:size])
	s.FillBytes(signature[size:])
	return string(encoding.AppendEncode(append(signed, '.'), signature[:])), nil
}

// setOf returns the public parts of keys as a JWK Set.
func setOf(all []*key) []byte {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	for _, k := range all {
		set.Keys = append(set.Keys, k.public)
	}
	text, _ := json.Marshal(set) // strings can always be encoded
	return append(text, '\n')
}

package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// lifetime is the time for which the JWT of a client is valid. It is signed immediately before the request is sent.
const lifetime = time.Minute

// parseKey reads a private key of a client, and returns the algorithm of its signatures.
func parseKey(text string) (crypto.PrivateKey, jose.SignatureAlgorithm, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, "", errors.New("it has no PEM block")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, "", errors.New("it is not a private key in PKCS #8")
	}
	switch k := private.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() >= 2048 {
			return k, jose.RS256, nil
		}
	case ed25519.PrivateKey:
		return k, jose.EdDSA, nil
	case *ecdsa.PrivateKey:
		switch k.Curve {
		case elliptic.P256():
			return k, jose.ES256, nil
		case elliptic.P384():
			return k, jose.ES384, nil
		}
	}
	return nil, "", errors.New("the key must be of RSA with 2048 bits or more, P-256, P-384 or Ed25519")
}

func checkKey(text string) error {
	_, _, err := parseKey(text)
	return err
}

// assert returns the JWT with which a client authenticates to an authorization server (RFC 7523 §3).
func (s *Settings) assert(key, issuer string, now time.Time) (string, error) {
	private, alg, err := parseKey(key)
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	if s.KeyID != "" {
		options = options.WithHeader("kid", s.KeyID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: private}, options)
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{"iss": s.ClientID, "sub": s.ClientID, "aud": issuer,
		"jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(lifetime).Unix()})
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

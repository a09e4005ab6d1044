package issuertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"

	"github.com/go-jose/go-jose/v4"
)

// signer is a key of the issuer.
type signer struct {
	alg, kid string
	private  crypto.Signer
}

// newSigners creates a key of each kind. slow is the RSA key; nil: a new one.
func newSigners(name string, slow crypto.Signer) (_ []*signer, err error) {
	if slow == nil {
		slow, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	e, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, d, err3 := ed25519.GenerateKey(rand.Reader)
	return []*signer{{"RS256", "rsa-" + name, slow}, {"ES256", "ec-" + name, e}, {"EdDSA", "ed-" + name, d}},
		errors.Join(err, err2, err3)
}

func (k *signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.kid, Algorithm: k.alg, Use: "sig"}
}

func (k *signer) sign(text []byte, alg string) ([]byte, error) {
	digest := sha256.Sum256(text)
	switch private := k.private.(type) {
	case *ecdsa.PrivateKey: // RFC 7518 §3.4
		r, s, err := ecdsa.Sign(rand.Reader, private, digest[:])
		if err != nil {
			return nil, err
		}
		out := make([]byte, 64)
		r.FillBytes(out[:32])
		s.FillBytes(out[32:])
		return out, nil
	case ed25519.PrivateKey:
		return ed25519.Sign(private, text), nil
	}
	if alg == "PS256" {
		return k.private.Sign(rand.Reader, digest[:],
			&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	}
	return k.private.Sign(rand.Reader, digest[:], crypto.SHA256)
}

// stored is a signer in the file.
type stored struct {
	Alg, KID string
	Private  []byte // PKCS #8
}

func (s *server) save() error {
	var all []stored
	for _, k := range s.keys {
		der, err := x509.MarshalPKCS8PrivateKey(k.private)
		if err != nil {
			return err
		}
		all = append(all, stored{k.alg, k.kid, der})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(s.file, text, 0o600)
}

// load reads the keys of the file, or creates the first ones.
func (s *server) load() (err error) {
	text, err := os.ReadFile(s.file)
	if errors.Is(err, os.ErrNotExist) {
		if s.keys, err = newSigners("1", nil); err == nil {
			err = s.save()
		}
		return err
	}
	var all []stored
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for _, k := range all {
		private, err := x509.ParsePKCS8PrivateKey(k.Private)
		if err != nil {
			return err
		}
		s.keys = append(s.keys, &signer{k.Alg, k.KID, private.(crypto.Signer)})
	}
	return err
}

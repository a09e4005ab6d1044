// Package aead encrypts data that is stored where others may read it.
package aead

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// format is the first byte of sealed data. Another format would have another.
const format = 1

// ErrOpen is the error of Open. It does not say why.
var ErrOpen = errors.New("cannot be opened with the configured keys")

// Sealer encrypts with AES-256-GCM and a random nonce, and binds a text to a context. The zero value has no
// key. It is safe for concurrent use.
type Sealer struct{ keys []cipher.AEAD } // the first key seals, all of them open

// New returns a Sealer with keys, which may be empty. Each key must have KeyBytes.
func New(keys [][]byte) (*Sealer, error) {
	s := &Sealer{}
	for i, k := range keys {
		if len(k) != KeyBytes {
			return nil, fmt.Errorf("key %d has %d bytes; it must have %d", i+1, len(k), KeyBytes)
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// On reports whether there is a key.
func (s *Sealer) On() bool { return len(s.keys) > 0 }

// Seal encrypts text. Open needs the same bond. Seal must not be called without a key.
func (s *Sealer) Seal(bond, text []byte) []byte {
	nonce := make([]byte, s.keys[0].NonceSize())
	_, _ = rand.Read(nonce) // never fails
	sealed := append([]byte{format}, nonce...)
	return s.keys[0].Seal(sealed, nonce, text, bond)
}

// Open decrypts what Seal returned. It returns ErrOpen if no key fits.
func (s *Sealer) Open(bond, sealed []byte) ([]byte, error) {
	for _, key := range s.keys {
		n := 1 + key.NonceSize()
		if len(sealed) < n || sealed[0] != format {
			break
		}
		if text, err := key.Open(nil, sealed[1:n], sealed[n:], bond); err == nil {
			return text, nil
		}
	}
	return nil, ErrOpen
}

// Package aead encrypts what is kept where others may read it.
package aead

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
)

// KeyBytes is how long a key is.
const KeyBytes = 32

// format is the first byte of what is sealed, for the day when it is another.
const format = 1

// ErrOpen says nothing of why.
var ErrOpen = errors.New("cannot be opened with the keys that there are")

// Sealer encrypts by AES-256-GCM, with a nonce drawn at random, and binds a text to what it
// belongs to. The zero value has no key. It is safe for concurrent use.
type Sealer struct{ keys []cipher.AEAD } // the first seals, all open

// New fails for keys that are not of KeyBytes. There may be none.
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

// On says whether there is a key.
func (s *Sealer) On() bool { return len(s.keys) > 0 }

// Seal encrypts text, which opens only with the same bond. It must not be called without a key.
func (s *Sealer) Seal(bond, text []byte) []byte {
	nonce := make([]byte, s.keys[0].NonceSize())
	_, _ = rand.Read(nonce) // which does not fail
	sealed := append([]byte{format}, nonce...)
	return s.keys[0].Seal(sealed, nonce, text, bond)
}

// Open answers with ErrOpen where no key opens it.
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

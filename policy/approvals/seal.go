package approvals

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
)

// sealer encrypts what is kept of arguments: AES-256-GCM, with a nonce drawn at random, and
// bound to the approval that it is of. The zero value does not.
type sealer struct{ keys []cipher.AEAD } // the first seals, all open

// KeyBytes is how long a key is.
const KeyBytes = 32

func newSealer(keys [][]byte) (*sealer, error) {
	s := &sealer{}
	for i, k := range keys {
		if len(k) != KeyBytes {
			return nil, fmt.Errorf("key %d of approvals has %d bytes; it must have %d", i+1, len(k), KeyBytes)
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return nil, fmt.Errorf("key %d of approvals: %w", i+1, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("key %d of approvals: %w", i+1, err)
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

func (s *sealer) on() bool { return len(s.keys) > 0 }

// What a sealed text is: the arguments as they were sent, or only a preview of them.
const (
	sealedArgs    = 'a'
	sealedPreview = 'p'
)

// format is the first byte of what is sealed, for the day when it is another.
const format = 1

// seal must not be called without a key.
func (s *sealer) seal(a *Approval, what byte, text []byte) []byte {
	nonce := make([]byte, s.keys[0].NonceSize())
	_, _ = rand.Read(nonce) // which does not fail
	sealed := append([]byte{format}, nonce...)
	return s.keys[0].Seal(sealed, nonce, append([]byte{what}, text...), bond(a))
}

var errSealed = errors.New("cannot be opened with the keys that there are")

func (s *sealer) open(a *Approval, sealed []byte) (what byte, text []byte, err error) {
	for _, key := range s.keys {
		n := 1 + key.NonceSize()
		if len(sealed) < n || sealed[0] != format {
			break
		}
		if text, err = key.Open(nil, sealed[1:n], sealed[n:], bond(a)); err == nil && len(text) > 0 {
			return text[0], text[1:], nil
		}
	}
	return 0, nil, errSealed
}

// bond is what a sealed text belongs to.
func bond(a *Approval) []byte {
	s := sumOf("capgate approval", a.Tenant, a.ID, string(a.ArgsHash[:]))
	return s[:]
}

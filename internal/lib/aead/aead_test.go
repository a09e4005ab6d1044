package aead_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/testkit/check"
)

func newSealer(t *testing.T, keys ...byte) *aead.Sealer {
	t.Helper()
	all := make([][]byte, len(keys))
	for i, b := range keys {
		all[i] = bytes.Repeat([]byte{b}, aead.KeyBytes)
	}
	s, err := aead.New(all)
	check.Must(t, err)
	return s
}

// TestOpen: a text opens with its context and one of the keys alone, and if no bit of it was changed.
func TestOpen(t *testing.T) {
	t.Parallel()
	s := newSealer(t, 1, 2)
	bond, text := []byte("context"), []byte("text")
	sealed := s.Seal(bond, text)
	if bytes.Contains(sealed, text) || bytes.Equal(sealed, s.Seal(bond, text)) {
		t.Errorf("%x", sealed)
	}
	for name, by := range map[string]*aead.Sealer{"the same": s, "among others": newSealer(t, 3, 1)} {
		if got, err := by.Open(bond, sealed); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, by := range map[string]*aead.Sealer{"no key": {}, "other keys": newSealer(t, 2, 3)} {
		if got, err := by.Open(bond, sealed); !errors.Is(err, aead.ErrOpen) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, other := range map[string][]byte{"another context": []byte("contexu"), "no context": nil} {
		if got, err := s.Open(other, sealed); !errors.Is(err, aead.ErrOpen) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for i := range len(sealed) * 8 {
		altered := bytes.Clone(sealed)
		altered[i/8] ^= 1 << (i % 8)
		if got, err := s.Open(bond, altered); !errors.Is(err, aead.ErrOpen) {
			t.Errorf("bit %d: %q, %v", i, got, err)
		}
	}
	for n := range sealed {
		if got, err := s.Open(bond, sealed[:n]); !errors.Is(err, aead.ErrOpen) {
			t.Errorf("the first %d bytes: %q, %v", n, got, err)
		}
	}
}

// TestKeysOfAnotherLengthAreRejected: an error names such a key by its number.
func TestKeysOfAnotherLengthAreRejected(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := aead.New([][]byte{make([]byte, aead.KeyBytes), make([]byte, n)}); err == nil ||
			!bytes.Contains([]byte(err.Error()), []byte("key 2")) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// Package sharedkey derives the keys that replicas share from one secret: that of a file, or else one in their store.
package sharedkey

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// Bytes is the length of a secret, and of a key.
const Bytes = 32

// fresh is the time for which a secret of the store is used before the store is queried for a newer one.
const fresh = time.Minute

// pause is the time between two queries of Keys.Recent while the store does not answer.
const pause = 5 * time.Second

// Store stores the secret that replicas share if no file has one.
type Store interface {
	// SharedSecret returns the stored secret, which becomes proposal if there was none. It must end with ctx.
	SharedSecret(ctx context.Context, proposal []byte) ([]byte, error)
}

// Derive returns the key of each secret for a purpose, by HKDF-SHA256. Keys of other purposes reveal nothing of it.
func Derive(secrets [][]byte, purpose string) (keys [][]byte) {
	for _, secret := range secrets {
		key, _ := hkdf.Key(sha256.New, secret, nil, "capgate 1 "+purpose, Bytes) // fails only for much longer keys
		keys = append(keys, key)
	}
	return keys
}

// Secret is the secret of all replicas. It is safe for concurrent use.
type Secret struct {
	store  Store
	now    func() time.Time
	file   atomic.Pointer[secrets] // nil: no file has a secret
	shared atomic.Pointer[secrets] // of the store; nil: not read yet
}

// secrets are the secrets of a file, or one of the store.
type secrets struct {
	all   [][]byte // the first one signs and encrypts
	until time.Time
}

// New returns a Secret that uses the store until Replace. If store is nil, the secret is random, of this process alone.
// If now is nil, the system's clock is used.
func New(store Store, now func() time.Time) *Secret {
	if now == nil {
		now = time.Now
	}
	if store == nil {
		store = alone{}
	}
	return &Secret{store: store, now: now}
}

// alone is the store of a process that shares nothing.
type alone struct{}

func (alone) SharedSecret(_ context.Context, proposal []byte) ([]byte, error) { return proposal, nil }

// Replace replaces the secrets of the file. The first one signs and encrypts, all verify and decrypt. Without any, the
// secret of the store is used.
func (s *Secret) Replace(all [][]byte) {
	if len(all) == 0 {
		s.file.Store(nil)
		return
	}
	s.file.Store(&secrets{all: all})
}

// Keys returns the keys for a purpose.
func (s *Secret) Keys(purpose string) *Keys { return &Keys{secret: s, purpose: purpose} }

// cached returns the secrets in memory; nil: the store must be queried.
func (s *Secret) cached() *secrets {
	if file := s.file.Load(); file != nil {
		return file
	}
	if shared := s.shared.Load(); shared != nil && s.now().Before(shared.until) {
		return shared
	}
	return nil
}

// load returns the secrets. It may query the store; while that is unavailable, the last secret remains valid.
func (s *Secret) load(ctx context.Context) (*secrets, error) {
	if known := s.cached(); known != nil {
		return known, nil
	}
	proposal := make([]byte, Bytes)
	_, _ = rand.Read(proposal) // never fails
	last := s.shared.Load()
	if last != nil {
		proposal = slices.Clone(last.all[0]) // a store that has lost the secret gets it back
	}
	secret, err := s.store.SharedSecret(ctx, proposal)
	if err == nil && len(secret) != Bytes {
		err = errLength
	}
	switch {
	case err == nil:
		last = &secrets{[][]byte{secret}, s.now().Add(fresh)}
		s.shared.Store(last)
	case last == nil:
		return nil, err
	}
	return last, nil
}

var errLength = errors.New("the shared secret in the store does not have 32 bytes")

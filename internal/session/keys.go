package session

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/aead"
)

// keyFresh is the time for which the shared key is used before the store is queried for a newer one.
const keyFresh = time.Minute

// keys are the keys that seal cookies. The first seals, all open.
type keys struct {
	store  Store
	now    func() time.Time
	file   atomic.Pointer[aead.Sealer] // nil: the file has none
	shared atomic.Pointer[sharedKey]
}

type sharedKey struct {
	raw    []byte
	sealer *aead.Sealer
	until  time.Time
}

// replace replaces the keys of the file; none: the shared key is used.
func (k *keys) replace(all [][]byte) error {
	sealer, err := aead.New(all)
	if err != nil {
		return err
	}
	if !sealer.On() {
		sealer = nil
	}
	k.file.Store(sealer)
	return nil
}

// load returns the keys. It may ask the store; while that is unavailable, the last key remains valid.
func (k *keys) load(ctx context.Context) (*aead.Sealer, *call.Refusal) {
	if file := k.file.Load(); file != nil {
		return file, nil
	}
	last := k.shared.Load()
	if last != nil && k.now().Before(last.until) {
		return last.sealer, nil
	}
	proposal := make([]byte, aead.KeyBytes)
	_, _ = rand.Read(proposal) // never fails
	if last != nil {
		proposal = append(proposal[:0], last.raw...) // a store that has lost the key gets it back
	}
	if raw, err := k.store.SharedKey(ctx, proposal); err == nil {
		if sealer, err := aead.New([][]byte{raw}); err == nil {
			last = &sharedKey{raw, sealer, k.now().Add(keyFresh)}
			k.shared.Store(last)
		}
	}
	if last == nil {
		return nil, refusedAway
	}
	return last.sealer, nil
}

package sharedkey

import (
	"context"
	"errors"
	"sync/atomic"
)

// Keys are the keys for one purpose. The first one signs and encrypts, all verify and decrypt. They are safe for
// concurrent use.
type Keys struct {
	secret  *Secret
	purpose string
	last    atomic.Pointer[derived]
	again   atomic.Int64 // until when Recent does not query the store again, in ns since 1970
}

// derived are the keys of some secrets.
type derived struct {
	from *secrets
	keys [][]byte
}

// Cached returns the keys from memory; nil: the store must be queried.
func (k *Keys) Cached() [][]byte { return k.of(k.secret.cached()) }

// Load returns the keys. It may wait for the store until ctx ends; while the store is unavailable, the last keys remain
// valid.
func (k *Keys) Load(ctx context.Context) ([][]byte, error) {
	all, err := k.secret.load(ctx)
	return k.of(all), err
}

// Recent returns the keys, and none while they are not available. It waits for the store at most: the first time, and
// in one call in a while after that or after a failure.
func (k *Keys) Recent(ctx context.Context) [][]byte {
	if keys := k.Cached(); keys != nil {
		return keys
	}
	known := k.of(k.secret.shared.Load())
	now, due := k.secret.now(), k.again.Load()
	until := now.Add(pause).UnixNano()
	if now.UnixNano() < due || known != nil && !k.again.CompareAndSwap(due, until) {
		return known
	}
	keys, _ := k.Load(ctx)
	if k.Cached() == nil && !errors.Is(ctx.Err(), context.Canceled) { // which says nothing of the store
		k.again.Store(until)
	}
	return keys
}

// of derives the keys of secrets, unless it did before.
func (k *Keys) of(all *secrets) [][]byte {
	if all == nil {
		return nil
	}
	last := k.last.Load()
	if last == nil || last.from != all {
		last = &derived{all, Derive(all.all, k.purpose)}
		k.last.Store(last)
	}
	return last.keys
}

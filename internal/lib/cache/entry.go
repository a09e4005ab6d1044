package cache

import (
	"sync/atomic"
	"unsafe"
)

// Entry is an entry of a Cache. NewEntry alone makes entries, and they must not be copied: the key directly follows the
// entry in memory, at an address that is known before the entry is read. A reader thus waits for both at once, not for
// one after the other. BenchmarkHit measures the difference.
type Entry[V any] struct {
	Value V     // must not change once the entry is in a Cache, except by atomic operations
	Until int64 // when the entry expires, by the clock of its user; the Cache does not read it

	hash     uint64
	length   uint32      // of the key
	overflow bool        // its bucket was full; guarded by the shard's lock
	used     atomic.Bool // since the last check for eviction
}

type withRoom[V, Room any] struct {
	Entry[V]
	room Room //nolint:unused // has the key
}

// Rooms for keys. With entries of 80 bytes, those of the rules, they are size classes of the allocator.
type (
	room48  = [48]byte
	room112 = [112]byte
	room240 = [240]byte
	roomMax = [MaxKey]byte
)

// MaxKey bounds the bytes of a key, and so the memory that long names can take.
const MaxKey = 1200

// NewEntry returns an entry with a copy of the key; nil if the key is longer than MaxKey.
func NewEntry[V any](key string) (e *Entry[V]) {
	switch n := len(key); {
	case n <= len(room48{}):
		e = &new(withRoom[V, room48]).Entry
	case n <= len(room112{}):
		e = &new(withRoom[V, room112]).Entry
	case n <= len(room240{}):
		e = &new(withRoom[V, room240]).Entry
	case n <= MaxKey:
		e = &new(withRoom[V, roomMax]).Entry
	default:
		return nil
	}
	e.length = uint32(copy(unsafe.Slice(e.room(), len(key)), key))
	return e
}

// room returns the address of the key.
func (e *Entry[V]) room() *byte { return (*byte)(unsafe.Add(unsafe.Pointer(e), unsafe.Sizeof(*e))) }

// Key returns the key. The string shares the memory of the entry.
func (e *Entry[V]) Key() string { return unsafe.String(e.room(), e.length) }

// hasKey reports whether the entry has this key: different keys may have the same hash.
func (e *Entry[V]) hasKey(key string) bool {
	return int(e.length) == len(key) && unsafe.String(e.room(), len(key)) == key
}

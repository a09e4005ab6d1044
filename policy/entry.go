package policy

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// entry is a match with its expiry. Its key directly follows it in memory, at an address that is known
// before the entry is read: a reader waits for both at once. So only newEntry makes entries, and they
// are never copied.
type entry struct {
	hash       uint64
	read       int64  // nanoseconds of the decider's clock
	until      int64  // likewise
	generation uint64 // of its key, before the query
	// checked is the number of changes at the last check of the generation.
	checked atomic.Uint64

	length uint32 // of the key
	matches

	overflow bool        // its bucket was full; guarded by the shard's lock
	used     atomic.Bool // since the last check for eviction
}

// never is the value of checked before the first check.
const never = math.MaxUint64

// The sizes are those of the allocator.
type (
	entry128  = withRoom[[128 - unsafe.Sizeof(entry{})]byte]
	entry192  = withRoom[[192 - unsafe.Sizeof(entry{})]byte]
	entry320  = withRoom[[320 - unsafe.Sizeof(entry{})]byte]
	entry1280 = withRoom[[1280 - unsafe.Sizeof(entry{})]byte]
)

type withRoom[Room any] struct {
	entry
	room Room
}

// maxKey bounds the cached keys, and so the memory that long names can take.
const maxKey = len(entry1280{}.room)

// newEntry returns an entry with a key made by Key.append.
func newEntry(key string) (e *entry) {
	switch n := len(key); {
	case n <= len(entry128{}.room):
		e = &new(entry128).entry
	case n <= len(entry192{}.room):
		e = &new(entry192).entry
	case n <= len(entry320{}.room):
		e = &new(entry320).entry
	default:
		e = &new(entry1280).entry
	}
	e.length = uint32(copy(unsafe.Slice(e.room(), len(key)), key))
	return e
}

// room returns the address of the key.
func (e *entry) room() *byte { return (*byte)(unsafe.Add(unsafe.Pointer(e), unsafe.Sizeof(*e))) }

// key returns the entry's key: different keys may have the same hash.
func (e *entry) key() string { return unsafe.String(e.room(), e.length) }

// tenant returns the key's tenant. The string shares the entry's memory.
func (e *entry) tenant() string {
	tenant, _ := cutWord(e.key())
	return tenant
}

// hasKey reports whether the entry has this key.
func (e *entry) hasKey(key []byte) bool {
	return int(e.length) == len(key) && unsafe.String(e.room(), len(key)) == string(key)
}

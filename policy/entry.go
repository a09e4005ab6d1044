package policy

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// entry is a ruling and until when it is taken without asking again. Its key lies right
// behind it, at a place that is known before the entry is read: who looks for it waits for
// both at once. So entries are made by newEntry alone, and never copied.
type entry struct {
	hash  uint64
	until int64  // nanoseconds of the decider's clock
	stamp uint64 // of its key, before it was asked for
	// checked is how many changes there were when the stamp was last looked at.
	checked atomic.Uint64

	length uint32 // of the key
	rulings

	hidden bool        // its bucket had no room; the part's lock guards it
	used   atomic.Bool // since it was last looked at for eviction
}

// never is what is in checked before.
const never = math.MaxUint64

// These fill sizes of the allocator.
type (
	entry128  = withRoom[[128 - unsafe.Sizeof(entry{})]byte]
	entry192  = withRoom[[192 - unsafe.Sizeof(entry{})]byte]
	entry320  = withRoom[[320 - unsafe.Sizeof(entry{})]byte]
	entry1152 = withRoom[[1152 - unsafe.Sizeof(entry{})]byte]
)

type withRoom[Room any] struct {
	entry
	room Room
}

// longestKey is what is cached: nobody shall fill the memory with names without end.
const longestKey = len(entry1152{}.room)

// newEntry makes one for a key, as Key.append has it.
func newEntry(key string) (e *entry) {
	switch n := len(key); {
	case n <= len(entry128{}.room):
		e = &new(entry128).entry
	case n <= len(entry192{}.room):
		e = &new(entry192).entry
	case n <= len(entry320{}.room):
		e = &new(entry320).entry
	default:
		e = &new(entry1152).entry
	}
	e.length = uint32(copy(unsafe.Slice(e.room(), len(key)), key))
	return e
}

// room is where the key begins.
func (e *entry) room() *byte { return (*byte)(unsafe.Add(unsafe.Pointer(e), unsafe.Sizeof(*e))) }

// key is whose it is: two keys may have one hash.
func (e *entry) key() string { return unsafe.String(e.room(), e.length) }

// tenant is whose it is. The string is the entry's: it may be kept as long as that.
func (e *entry) tenant() string {
	tenant, _ := cutWord(e.key())
	return tenant
}

func (e *entry) is(key []byte) bool {
	return int(e.length) == len(key) && unsafe.String(e.room(), len(key)) == string(key)
}

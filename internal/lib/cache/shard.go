package cache

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// shard is a part of a cache: a list of entries by owner, least recently used last, and an index before it that
// readers use without a lock.
//
//	get ──► bucket ──► entry and its key        two places in memory
//	          │ full
//	          └─────► list, under the lock
type shard[V any] struct {
	buckets []bucket[V] // a power of two

	mu        sync.RWMutex // held to change anything
	size      int
	forgotten uint64                                    // how often keys of the shard were forgotten
	list      *fairshare.LRU[string, uint64, *Entry[V]] // by owner and hash: of two keys with one hash the later stays
}

// bucket points to some of the entries with a hash that selects it. It fills a cache line.
type bucket[V any] struct {
	entries  [5]atomic.Pointer[Entry[V]]
	tags     [5]atomic.Uint32 // the upper half of an entry's hash
	overflow atomic.Int32     // number of further entries, which only the list has
}

func newShard[V any](size int) *shard[V] {
	s := &shard[V]{buckets: make([]bucket[V], bucketsFor(size)), size: size}
	s.list = fairshare.NewLRU[string](size, func(_ uint64, e *Entry[V]) { s.unlink(e) })
	return s
}

// bucketsFor returns the power of two with at most two entries a bucket.
func bucketsFor(entries int) int { return 1 << bits.Len(uint(max(entries/2, 1)-1)) }

func (s *shard[V]) bucket(hash uint64) *bucket[V] {
	return &s.buckets[hash/maxShards&uint64(len(s.buckets)-1)]
}

func (s *shard[V]) get(hash uint64, key string) *Entry[V] {
	b := s.bucket(hash)
	e := b.get(hash, key)
	if e == nil && b.overflow.Load() > 0 {
		e = s.findInList(hash, key)
	}
	if e != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

func (b *bucket[V]) get(hash uint64, key string) *Entry[V] {
	for i := range b.tags {
		if b.tags[i].Load() == tagOf(hash) {
			if e := b.entries[i].Load(); e != nil && e.hasKey(key) {
				return e
			}
		}
	}
	return nil
}

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// findInList searches the list.
func (s *shard[V]) findInList(hash uint64, key string) *Entry[V] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e, ok := s.list.Peek(hash); ok && e.hasKey(key) {
		return e
	}
	return nil
}

// secondChances bounds how many used entries are spared for one eviction.
const secondChances = 8

// put adds an entry, unless a key was forgotten since the stamp; nil: in any case. In a full shard it evicts the oldest
// entry of the owner that has most. An entry that was used since it last was the oldest becomes young again (second
// chance).
func (s *shard[V]) put(owner string, e *Entry[V], since *Stamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since != nil && uint64(*since) != s.forgotten {
		return
	}
	s.list.Remove(e.hash)
	for range secondChances {
		hash, oldest, ok := s.list.Oldest(owner)
		if !ok || s.list.Len() < s.size || !oldest.used.Swap(false) {
			break
		}
		s.list.Get(hash)
	}
	s.list.Add(owner, e.hash, e)
	s.link(e)
}

// link adds an entry to the index.
func (s *shard[V]) link(e *Entry[V]) {
	b := s.bucket(e.hash)
	for i := range b.entries {
		if b.entries[i].Load() == nil {
			b.entries[i].Store(e) // a reader that still sees the old tag compares the key
			b.tags[i].Store(tagOf(e.hash))
			return
		}
	}
	e.overflow = true
	b.overflow.Add(1)
}

// unlink removes an entry from the index.
func (s *shard[V]) unlink(e *Entry[V]) {
	b := s.bucket(e.hash)
	if e.overflow {
		b.overflow.Add(-1)
		return
	}
	for i := range b.entries {
		if b.entries[i].Load() == e {
			b.entries[i].Store(nil)
			return
		}
	}
}

func (s *shard[V]) stamp() Stamp {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Stamp(s.forgotten)
}

func (s *shard[V]) remove(hash uint64, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeFromList(hash, key)
}

func (s *shard[V]) forget(hash uint64, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten++
	s.removeFromList(hash, key)
}

func (s *shard[V]) removeFromList(hash uint64, key string) {
	if e, ok := s.list.Peek(hash); ok && e.hasKey(key) {
		s.list.Remove(hash)
	}
}

func (s *shard[V]) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten++
	s.list.Purge()
}

func (s *shard[V]) removeIf(drop func(*Entry[V]) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.pick(drop) {
		s.list.Remove(e.hash)
	}
}

func (s *shard[V]) all(pick func(*Entry[V]) bool) []*Entry[V] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pick(pick)
}

// pick returns the entries for which the function returns true. The lock is held.
func (s *shard[V]) pick(of func(*Entry[V]) bool) (picked []*Entry[V]) {
	s.list.Each(func(_ uint64, e *Entry[V]) bool {
		if of(e) {
			picked = append(picked, e)
		}
		return true
	})
	return picked
}

func (s *shard[V]) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.list.Len()
}

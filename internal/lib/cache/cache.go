package cache

import (
	"hash/maphash"
	"unsafe"
)

// Cache holds the most recently used entries by key. In the steady state Get takes no lock, and writes no memory that
// processors share. It is safe for concurrent use.
type Cache[V any] struct {
	seed   maphash.Seed
	shards []*shard[V] // one, or maxShards
}

const (
	// maxShards is the number of parts of a large cache, each with a lock of its own.
	maxShards = 16
	// wholeBelow is the size below which a cache has one part, and so evicts no entry before it is full.
	wholeBelow = 1024
)

// New returns a cache of at most size entries, and at least one.
func New[V any](size int) *Cache[V] {
	n := maxShards
	if size < wholeBelow {
		n = 1
	}
	c := &Cache[V]{seed: maphash.MakeSeed(), shards: make([]*shard[V], n)}
	for i := range c.shards {
		c.shards[i] = newShard[V](max(size/n, 1))
	}
	return c
}

func (c *Cache[V]) find(key string) (s *shard[V], hash uint64) {
	hash = maphash.String(c.seed, key)
	return c.shards[hash&uint64(len(c.shards)-1)], hash
}

// Get returns the entry of a key, or nil.
func (c *Cache[V]) Get(key string) *Entry[V] {
	s, hash := c.find(key)
	return s.get(hash, key)
}

// GetBytes does the same as Get.
func (c *Cache[V]) GetBytes(key []byte) *Entry[V] {
	return c.Get(unsafe.String(unsafe.SliceData(key), len(key)))
}

// Put adds a new entry for an owner, and replaces one with the same key. A full cache evicts an old entry of the owner
// that has most. If e is nil, Put does nothing.
func (c *Cache[V]) Put(owner string, e *Entry[V]) { c.put(owner, e, nil) }

// Stamp is the state of a key before a request for its value.
type Stamp uint64

// Stamp returns the stamp of a key. It changes when the key is forgotten, and sometimes when another one is.
func (c *Cache[V]) Stamp(key string) Stamp {
	s, _ := c.find(key)
	return s.stamp()
}

// PutSince does the same as Put, unless the stamp of the key has changed: then it does nothing.
func (c *Cache[V]) PutSince(stamp Stamp, owner string, e *Entry[V]) { c.put(owner, e, &stamp) }

func (c *Cache[V]) put(owner string, e *Entry[V], since *Stamp) {
	if e == nil {
		return
	}
	s, hash := c.find(e.Key())
	e.hash = hash
	s.put(owner, e, since)
}

// Remove removes the entry of a key.
func (c *Cache[V]) Remove(key string) {
	s, hash := c.find(key)
	s.remove(hash, key)
}

// Forget removes the entry of a key, and changes its stamp.
func (c *Cache[V]) Forget(key string) {
	s, hash := c.find(key)
	s.forget(hash, key)
}

// Clear forgets all keys.
func (c *Cache[V]) Clear() {
	for _, s := range c.shards {
		s.clear()
	}
}

// RemoveIf removes the entries for which drop returns true. The function must not use the cache.
func (c *Cache[V]) RemoveIf(drop func(*Entry[V]) bool) {
	for _, s := range c.shards {
		s.removeIf(drop)
	}
}

// All returns the entries for which pick returns true. The function must not use the cache.
func (c *Cache[V]) All(pick func(*Entry[V]) bool) (all []*Entry[V]) {
	for _, s := range c.shards {
		all = append(all, s.all(pick)...)
	}
	return all
}

// Len returns the number of entries.
func (c *Cache[V]) Len() (n int) {
	for _, s := range c.shards {
		n += s.len()
	}
	return n
}

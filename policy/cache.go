package policy

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
)

// shardCount is the number of shards, which reduce the contention on the cache's locks.
const shardCount = 16

// cache holds the most recently used rule matches, each with the generation that its key had before
// the query. An entry of another generation is invalid, also one that a query is about to put.
type cache struct {
	seed        maphash.Seed
	shards      [shardCount]*shard
	generations *generations
}

func newCache(size int) *cache {
	c := &cache{seed: maphash.MakeSeed(), generations: newGenerations(size)}
	for i := range c.shards {
		c.shards[i] = newShard(max(size/shardCount, 1))
	}
	return c
}

// get returns the entry of a key. In the steady state it takes no lock, and writes no memory that
// processors share.
func (c *cache) get(k *Key) *entry {
	var room [keyRoom]byte
	text := k.append(room[:0])
	hash := maphash.Bytes(c.seed, text)
	e := c.shards[hash%shardCount].get(hash, text)
	if e == nil || !c.holds(e, k) {
		return nil
	}
	return e
}

// holds reports whether no rule that may apply to an entry has changed. Mostly no rule at all has
// changed since the last check.
func (c *cache) holds(e *entry, k *Key) bool {
	changes := c.generations.changes.Load()
	if e.checked.Load() == changes {
		return true
	}
	if c.generations.of(k) != e.generation {
		return false
	}
	e.checked.Store(changes)
	return true
}

// generation returns the generation that put needs. It is taken before the query.
func (c *cache) generation(k *Key) uint64 { return c.generations.of(k) }

// put stores a query's result, unless the key is longer than any that rules can name.
func (c *cache) put(key string, r matches, read, until int64, generation uint64) {
	if len(key) > maxKey {
		return
	}
	e := newEntry(key)
	e.hash, e.matches, e.read, e.until, e.generation = maphash.String(c.seed, key), r, read, until, generation
	e.checked.Store(never)
	c.shards[e.hash%shardCount].put(e)
}

// invalidate invalidates all entries that a change may affect.
func (c *cache) invalidate(change Change) {
	c.generations.change(change)
	if change.Everything {
		for _, p := range c.shards {
			p.clear()
		}
	}
}

// dropSince removes the entries that were read at a time or later.
func (c *cache) dropSince(at int64) {
	for _, p := range c.shards {
		p.dropSince(at)
	}
}

// recent returns the keys of at most so many unexpired entries, the most recently loaded ones first.
func (c *cache) recent(most int, now int64) []Key {
	var entries []*entry
	for _, p := range c.shards {
		entries = append(entries, p.recent(now)...)
	}
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(b.until, a.until) })
	keys := make([]Key, min(len(entries), most))
	for i := range keys {
		keys[i] = parseKey(entries[i].key())
	}
	return keys
}

// len returns the number of entries.
func (c *cache) len() (n int) {
	for _, p := range c.shards {
		n += p.len()
	}
	return n
}

// bucketsFor returns the power of two with at most two entries a bucket.
func bucketsFor(entries int) int { return 1 << bits.Len(uint(max(entries/2, 1)-1)) }

package policy

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
)

// parts is the number of shards, which reduce the contention on the cache's locks.
const parts = 16

// cache holds the most recently used rule matches, each with the generation that its key had before
// the query. An entry of another generation is invalid, also one that a query is about to put.
type cache struct {
	seed  maphash.Seed
	parts [parts]*part
	marks *marks
}

func newCache(size int) *cache {
	c := &cache{seed: maphash.MakeSeed(), marks: newMarks(size)}
	for i := range c.parts {
		c.parts[i] = newPart(max(size/parts, 1))
	}
	return c
}

// get returns the entry of a key. In the steady state it takes no lock, and writes no memory that
// processors share.
func (c *cache) get(k *Key) *entry {
	var room [keyRoom]byte
	text := k.append(room[:0])
	hash := maphash.Bytes(c.seed, text)
	e := c.parts[hash%parts].get(hash, text)
	if e == nil || !c.holds(e, k) {
		return nil
	}
	return e
}

// holds reports whether no rule that may apply to an entry has changed. Mostly no rule at all has
// changed since the last check.
func (c *cache) holds(e *entry, k *Key) bool {
	changes := c.marks.changes.Load()
	if e.checked.Load() == changes {
		return true
	}
	if c.marks.stamp(k) != e.stamp {
		return false
	}
	e.checked.Store(changes)
	return true
}

// stamp returns the generation that put needs. It is taken before the query.
func (c *cache) stamp(k *Key) uint64 { return c.marks.stamp(k) }

// put stores a query's result, unless the key is longer than any that rules can name.
func (c *cache) put(key string, r rulings, until int64, stamp uint64) {
	if len(key) > longestKey {
		return
	}
	e := newEntry(key)
	e.hash, e.rulings, e.until, e.stamp = maphash.String(c.seed, key), r, until, stamp
	e.checked.Store(never)
	c.parts[e.hash%parts].put(e)
}

// forget invalidates all entries that a change may affect.
func (c *cache) forget(change Change) {
	c.marks.change(change)
	if change.Everything {
		for _, p := range c.parts {
			p.clear()
		}
	}
}

// recent returns the keys of at most so many unexpired entries, the most recently loaded ones first.
func (c *cache) recent(most int, now int64) []Key {
	var entries []*entry
	for _, p := range c.parts {
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
	for _, p := range c.parts {
		n += p.len()
	}
	return n
}

// bucketsFor returns the power of two with at most two entries a bucket.
func bucketsFor(entries int) int { return 1 << bits.Len(uint(max(entries/2, 1)-1)) }

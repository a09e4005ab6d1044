package fairshare

import "container/list"

// LRU is a cache of entries with owners. When it is full, it evicts the least recently used entry of the
// owner with the most entries. It is not safe for concurrent use.
type LRU[O, K comparable, V any] struct {
	size    int
	evicted func(K, V) // called for each evicted entry; may be nil
	entries map[K]*list.Element
	owners  map[O]*list.List // lists of *kept by owner; the most recently used entry is in front
	largest O                // the owner that had the most entries at the last look
}

type kept[O, K comparable, V any] struct {
	owner O
	key   K
	value V
}

// ownersSampled is the number of owners that an eviction compares to find the one with the most entries. A scan of all
// owners would take too long.
const ownersSampled = 8

// NewLRU returns a cache of size entries, at least one. It calls evicted, unless that is nil, for each entry
// that it evicts.
func NewLRU[O, K comparable, V any](size int, evicted func(K, V)) *LRU[O, K, V] {
	c := &LRU[O, K, V]{size: max(size, 1), evicted: evicted}
	c.clear()
	return c
}

func (c *LRU[O, K, V]) clear() { c.entries, c.owners = map[K]*list.Element{}, map[O]*list.List{} }

// Get returns the entry of a key, and marks it as used.
func (c *LRU[O, K, V]) Get(key K) (value V, ok bool) {
	e, ok := c.entries[key]
	if !ok {
		return value, false
	}
	k := e.Value.(*kept[O, K, V])
	c.owners[k.owner].MoveToFront(e)
	return k.value, true
}

// Peek returns the entry of a key, and does not mark it as used.
func (c *LRU[O, K, V]) Peek(key K) (value V, ok bool) {
	e, ok := c.entries[key]
	if !ok {
		return value, false
	}
	return e.Value.(*kept[O, K, V]).value, true
}

// Add inserts an entry, and replaces one with the same key.
func (c *LRU[O, K, V]) Add(owner O, key K, value V) {
	if e, ok := c.entries[key]; ok {
		if k := e.Value.(*kept[O, K, V]); k.owner == owner {
			k.value = value
			c.owners[owner].MoveToFront(e)
			return
		}
		c.Remove(key)
	}
	if len(c.entries) >= c.size {
		if oldest, _, ok := c.Oldest(owner); ok {
			c.Remove(oldest)
		}
	}
	l := c.owners[owner]
	if l == nil {
		l = list.New()
		c.owners[owner] = l
	}
	c.entries[key] = l.PushFront(&kept[O, K, V]{owner, key, value})
}

// Oldest returns the entry that is evicted first when the owner adds another.
func (c *LRU[O, K, V]) Oldest(owner O) (key K, value V, ok bool) {
	best, most := owner, c.len(owner)
	if n := c.len(c.largest); n > most {
		best, most = c.largest, n
	}
	left := ownersSampled
	for o, l := range c.owners { // the order of a map is random
		if left--; left < 0 {
			break
		}
		if n := l.Len(); n > most {
			best, most = o, n
		}
	}
	if most == 0 {
		return key, value, false
	}
	c.largest = best
	k := c.owners[best].Back().Value.(*kept[O, K, V])
	return k.key, k.value, true
}

func (c *LRU[O, K, V]) len(owner O) int {
	if l := c.owners[owner]; l != nil {
		return l.Len()
	}
	return 0
}

// Remove deletes an entry.
func (c *LRU[O, K, V]) Remove(key K) {
	e, ok := c.entries[key]
	if !ok {
		return
	}
	k := e.Value.(*kept[O, K, V])
	delete(c.entries, key)
	l := c.owners[k.owner]
	if l.Remove(e); l.Len() == 0 {
		delete(c.owners, k.owner)
	}
	if c.evicted != nil {
		c.evicted(k.key, k.value)
	}
}

// Purge deletes all entries.
func (c *LRU[O, K, V]) Purge() {
	all := c.entries
	c.clear()
	if c.evicted == nil {
		return
	}
	for _, e := range all {
		k := e.Value.(*kept[O, K, V])
		c.evicted(k.key, k.value)
	}
}

// Len returns the number of entries.
func (c *LRU[O, K, V]) Len() int { return len(c.entries) }

// Each calls f for the entries until f returns false. The entries of one owner come in order, the most recently
// used first.
func (c *LRU[O, K, V]) Each(f func(K, V) bool) {
	for _, l := range c.owners {
		for e := l.Front(); e != nil; e = e.Next() {
			if k := e.Value.(*kept[O, K, V]); !f(k.key, k.value) {
				return
			}
		}
	}
}

package fairshare

import "container/list"

// LRU is a cache whose entries have owners. Where there is no room, the least recently used entry of the owner
// with most entries goes. It is not safe for concurrent use.
type LRU[O, K comparable, V any] struct {
	size    int
	evicted func(K, V) // may be nil
	entries map[K]*list.Element
	owners  map[O]*list.List // of *kept, the one used last in front
	most    O                // the owner that had most when that was looked at last
}

type kept[O, K comparable, V any] struct {
	owner O
	key   K
	value V
}

// looks is how many owners are looked at for the one with most entries: all of them would take too long.
const looks = 8

// NewLRU makes a cache of so many entries, at least one. evicted is told of each that goes; it may be nil.
func NewLRU[O, K comparable, V any](size int, evicted func(K, V)) *LRU[O, K, V] {
	c := &LRU[O, K, V]{size: max(size, 1), evicted: evicted}
	c.clear()
	return c
}

func (c *LRU[O, K, V]) clear() { c.entries, c.owners = map[K]*list.Element{}, map[O]*list.List{} }

// Get finds an entry, which is used by that.
func (c *LRU[O, K, V]) Get(key K) (value V, ok bool) {
	e, ok := c.entries[key]
	if !ok {
		return value, false
	}
	k := e.Value.(*kept[O, K, V])
	c.owners[k.owner].MoveToFront(e)
	return k.value, true
}

// Peek finds an entry, which is not used by that.
func (c *LRU[O, K, V]) Peek(key K) (value V, ok bool) {
	e, ok := c.entries[key]
	if !ok {
		return value, false
	}
	return e.Value.(*kept[O, K, V]).value, true
}

// Add puts an entry in, in place of one with the same key.
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

// Oldest is the entry that goes first when an owner has another.
func (c *LRU[O, K, V]) Oldest(owner O) (key K, value V, ok bool) {
	best, most := owner, c.len(owner)
	if n := c.len(c.most); n > most {
		best, most = c.most, n
	}
	left := looks
	for o, l := range c.owners { // they come in no order
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
	c.most = best
	k := c.owners[best].Back().Value.(*kept[O, K, V])
	return k.key, k.value, true
}

func (c *LRU[O, K, V]) len(owner O) int {
	if l := c.owners[owner]; l != nil {
		return l.Len()
	}
	return 0
}

// Remove takes an entry out.
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

// Purge takes all out.
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

// Len is how many entries there are.
func (c *LRU[O, K, V]) Len() int { return len(c.entries) }

// Each visits entries, of each owner the one used last first, until f returns false.
func (c *LRU[O, K, V]) Each(f func(K, V) bool) {
	for _, l := range c.owners {
		for e := l.Front(); e != nil; e = e.Next() {
			if k := e.Value.(*kept[O, K, V]); !f(k.key, k.value) {
				return
			}
		}
	}
}

package policy

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
)

// parts keeps processors that change the cache from waiting for each other's lock.
const parts = 16

// cache holds the rulings that were asked for last, each with the stamp that its key had
// before it was asked for. With another stamp it is not known any more, and neither is
// what was on its way into the cache.
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

// get finds what is known of a key. It takes no lock, as a rule, and writes nothing that
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

// holds says whether no rule that may be about an entry has changed. As a rule none has at
// all since that was last looked at.
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

// stamp is what put has to be told, taken before the store was asked.
func (c *cache) stamp(k *Key) uint64 { return c.marks.stamp(k) }

// put keeps what was asked for, unless the key is longer than any that rules could name.
func (c *cache) put(key string, r rulings, until int64, stamp uint64) {
	if len(key) > longestKey {
		return
	}
	e := newEntry(key)
	e.hash, e.rulings, e.until, e.stamp = maphash.String(c.seed, key), r, until, stamp
	e.checked.Store(never)
	c.parts[e.hash%parts].put(e)
}

// forget sees to it that no ruling that a change may be about is found again.
func (c *cache) forget(change Change) {
	c.marks.change(change)
	if change.Everything {
		for _, p := range c.parts {
			p.clear()
		}
	}
}

// recent are the keys of at most so many rulings whose time is not over, those that were
// asked for last before others.
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

func (c *cache) len() (n int) {
	for _, p := range c.parts {
		n += p.len()
	}
	return n
}

// bucketsFor is the power of two with two entries a bucket, or fewer.
func bucketsFor(entries int) int { return 1 << bits.Len(uint(max(entries/2, 1)-1)) }

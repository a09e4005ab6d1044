package policy

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
)

// parts keeps processors that change the cache from waiting for each other's lock.
const parts = 16

// cache holds the rulings that were asked for last. An invalidation takes away what is in
// the cache and what is on its way into it.
type cache struct {
	seed  maphash.Seed
	parts [parts]*part

	mu      sync.RWMutex // put holds it for reading, so that it is before or after a change
	changes uint64       // how often rules have changed
}

func newCache(size int) (*cache, error) {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range c.parts {
		p, err := newPart(max(size/parts, 1))
		if err != nil {
			return nil, err
		}
		c.parts[i] = p
	}
	return c, nil
}

// get finds what is known of a key. It takes no lock, as a rule, and writes nothing that
// processors share.
func (c *cache) get(k *Key) *entry {
	var room [keyRoom]byte
	text := k.append(room[:0])
	hash := maphash.Bytes(c.seed, text)
	return c.parts[hash%parts].get(hash, text)
}

// epoch is what put has to be told, taken before the store was asked.
func (c *cache) epoch() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.changes
}

// put keeps what was asked for in an epoch, unless rules have changed since, or the key is
// longer than any that rules could name.
func (c *cache) put(key string, r rulings, until int64, epoch uint64) {
	if len(key) > longestKey {
		return
	}
	e := newEntry(key)
	e.hash, e.rulings, e.until = maphash.String(c.seed, key), r, until
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.changes == epoch {
		c.parts[e.hash%parts].put(e)
	}
}

// forget takes away every ruling that a change may be about.
func (c *cache) forget(change Change) {
	c.mu.Lock()
	c.changes++
	c.mu.Unlock()
	for _, p := range c.parts {
		p.remove(change.about)
	}
}

// recent are the keys of at most so many rulings that are not over, those that were asked
// for last before others.
func (c *cache) recent(most int, now int64) []Key {
	var entries []*entry
	for _, p := range c.parts {
		entries = append(entries, p.recent(most, now)...)
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

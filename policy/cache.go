package policy

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"

	"github.com/capgate/capgate/internal/lib/cache"
)

// matchCache holds the most recently used rule matches, each with the generation that its key had before
// the query. An entry of another generation is invalid, also one that a query is about to put.
type matchCache struct {
	entries     *cache.Cache[cachedMatches] // by tenant; the keys are those of Key.append
	generations *generations
}

// cachedMatches are matches that were read from the store.
type cachedMatches struct {
	matches
	read       int64         // when the store was queried, in nanoseconds of the decider's clock
	generation uint64        // of the key, before the query
	checked    atomic.Uint64 // number of changes at the last check of the generation
}

type entry = cache.Entry[cachedMatches]

// never is the value of checked before the first check.
const never = math.MaxUint64

func newCache(size int) *matchCache {
	return &matchCache{cache.New[cachedMatches](size), newGenerations(size)}
}

// get returns the entry of a key, or nil.
func (c *matchCache) get(k *Key) *entry {
	var room [keyRoom]byte
	e := c.entries.GetBytes(k.append(room[:0]))
	if e == nil || !c.holds(&e.Value, k) {
		return nil
	}
	return e
}

// holds reports whether no rule that may apply to an entry has changed. Mostly no rule at all has
// changed since the last check.
func (c *matchCache) holds(e *cachedMatches, k *Key) bool {
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
func (c *matchCache) generation(k *Key) uint64 { return c.generations.of(k) }

// put stores a query's result, unless the key is longer than any that rules can name.
func (c *matchCache) put(key string, r matches, read, until int64, generation uint64) {
	e := cache.NewEntry[cachedMatches](key)
	if e == nil {
		return
	}
	e.Until, e.Value.matches, e.Value.read, e.Value.generation = until, r, read, generation
	e.Value.checked.Store(never)
	tenant, _ := cutWord(e.Key())
	c.entries.Put(tenant, e)
}

// invalidate invalidates all entries that a change may affect.
func (c *matchCache) invalidate(change Change) {
	c.generations.change(change)
	if change.Everything {
		c.entries.Clear()
	}
}

// dropSince removes the entries that were read at a time or later.
func (c *matchCache) dropSince(at int64) {
	c.entries.RemoveIf(func(e *entry) bool { return e.Value.read >= at })
}

// recent returns the keys of at most so many unexpired entries, the most recently loaded ones first.
func (c *matchCache) recent(most int, now int64) []Key {
	entries := c.entries.All(func(e *entry) bool { return e.Until >= now })
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(b.Until, a.Until) })
	keys := make([]Key, min(len(entries), most))
	for i := range keys {
		keys[i] = parseKey(entries[i].Key())
	}
	return keys
}

// len returns the number of entries.
func (c *matchCache) len() int { return c.entries.Len() }

package policy

import (
	"hash/maphash"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// key is what a ruling is kept under, the tenant first.
type key struct {
	tenant, user, agent, capability, tool string
}

// clone owns its strings: a call's lie in a connection's buffer.
func (k key) clone() key {
	return key{strings.Clone(k.tenant), strings.Clone(k.user), strings.Clone(k.agent), strings.Clone(k.capability), strings.Clone(k.tool)}
}

func (k key) subject() Subject { return Subject{k.tenant, k.user, k.agent} }

// entry is a ruling and until when it is taken without asking again.
type entry struct {
	ruling
	until int64 // nanoseconds of the decider's clock
}

// shards keeps processors from waiting for each other's lock.
const shards = 16

// cache holds the rulings that were asked for last. An invalidation takes away what is in
// the cache and what is on its way into it.
type cache struct {
	seed  maphash.Seed
	parts [shards]*lru.Cache[key, entry]

	mu      sync.RWMutex // put holds it for reading, so that it is before or after a change
	changes uint64       // how often rules have changed
}

func newCache(size int) (*cache, error) {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range c.parts {
		part, err := lru.New[key, entry](max(size/shards, 1))
		if err != nil {
			return nil, err
		}
		c.parts[i] = part
	}
	return c, nil
}

func (c *cache) part(k key) *lru.Cache[key, entry] {
	return c.parts[maphash.Comparable(c.seed, k)%shards]
}

func (c *cache) get(k key) (entry, bool) { return c.part(k).Get(k) }

// epoch is what put has to be told, taken before the store was asked.
func (c *cache) epoch() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.changes
}

// put keeps what was asked for in an epoch, unless rules have changed since.
func (c *cache) put(k key, e entry, epoch uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.changes == epoch {
		c.part(k).Add(k, e)
	}
}

// forget takes away every ruling that a change may be about.
func (c *cache) forget(change Change) {
	c.mu.Lock()
	c.changes++
	c.mu.Unlock()
	for _, part := range c.parts {
		if change.Everything {
			part.Purge()
			continue
		}
		for _, k := range part.Keys() {
			if (change.Tenant == "" || change.Tenant == k.tenant) && change.about(k.subject(), k.capability, k.tool) {
				part.Remove(k)
			}
		}
	}
}

func (c *cache) len() (n int) {
	for _, part := range c.parts {
		n += part.Len()
	}
	return n
}

package policy

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// key is what a ruling is kept under, the tenant first.
type key struct {
	tenant, user, agent, capability, tool string
}

// clone owns its strings, as a call's lie in a connection's buffer, and has them side by
// side, where one look at memory finds all.
func (k key) clone() key {
	all := k.tenant + k.user + k.agent + k.capability + k.tool
	for _, word := range []*string{&k.tenant, &k.user, &k.agent, &k.capability, &k.tool} {
		*word, all = all[:len(*word)], all[len(*word):]
	}
	return k
}

func (k key) subject() Subject { return Subject{k.tenant, k.user, k.agent} }

// entry is a ruling and until when it is taken without asking again.
type entry struct {
	key key // whose it is: two may have one hash
	ruling
	until int64 // nanoseconds of the decider's clock
}

// shards keeps processors from waiting for each other's lock.
const shards = 16

// cache holds the rulings that were asked for last. An invalidation takes away what is in
// the cache and what is on its way into it.
type cache struct {
	seed  maphash.Seed
	parts [shards]*lru.Cache[uint64, entry]

	mu      sync.RWMutex // put holds it for reading, so that it is before or after a change
	changes uint64       // how often rules have changed
}

func newCache(size int) (*cache, error) {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range c.parts {
		part, err := lru.New[uint64, entry](max(size/shards, 1))
		if err != nil {
			return nil, err
		}
		c.parts[i] = part
	}
	return c, nil
}

// place is where a key belongs: the part, and the name that it has there.
func (c *cache) place(k key) (*lru.Cache[uint64, entry], uint64) {
	hash := maphash.Comparable(c.seed, k)
	return c.parts[hash%shards], hash / shards
}

// renewal is how many times an entry is used for each time that this is noted: a note
// writes to its neighbours too, which costs more than all the rest.
const renewal = 8

func (c *cache) get(k key) (e entry, ok bool) {
	part, name := c.place(k)
	if rand.Uint32()%renewal == 0 {
		e, ok = part.Get(name)
	} else {
		e, ok = part.Peek(name)
	}
	return e, ok && e.key == k
}

// epoch is what put has to be told, taken before the store was asked.
func (c *cache) epoch() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.changes
}

// put keeps what was asked for in an epoch, unless rules have changed since.
func (c *cache) put(e entry, epoch uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.changes == epoch {
		part, name := c.place(e.key)
		part.Add(name, e)
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
		for _, name := range part.Keys() {
			e, ok := part.Peek(name)
			if k := &e.key; ok && (change.Tenant == "" || change.Tenant == k.tenant) && change.about(k.subject(), k.capability, k.tool) {
				part.Remove(name)
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

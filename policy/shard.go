package policy

import (
	"sync"
	"sync/atomic"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// shard is a shard of the cache: an LRU list of entries by tenant, and an index before it that readers use
// without a lock.
//
//	get ──► bucket ──► entry and its key        two places in memory
//	          │ full
//	          └─────► list, under the lock
type shard struct {
	buckets []bucket // a power of two

	mu   sync.RWMutex // held to change anything
	size int
	list *fairshare.LRU[string, uint64, *entry] // by tenant and hash: of two keys with one hash the later is stored
}

// bucket points to some of the entries whose hash selects it. It fills a cache line.
type bucket struct {
	entries  [5]atomic.Pointer[entry]
	tags     [5]atomic.Uint32 // the upper half of an entry's hash
	overflow atomic.Int32     // number of further entries, which only the list has
}

func newShard(size int) *shard {
	p := &shard{buckets: make([]bucket, bucketsFor(size)), size: size}
	p.list = fairshare.NewLRU[string](size, func(_ uint64, e *entry) { p.unlink(e) })
	return p
}

func (p *shard) bucket(hash uint64) *bucket {
	return &p.buckets[hash/shardCount%uint64(len(p.buckets))]
}

// get returns an entry, which is immutable.
func (p *shard) get(hash uint64, key []byte) *entry {
	b := p.bucket(hash)
	e := b.get(hash, key)
	if e == nil && b.overflow.Load() > 0 {
		e = p.findInList(hash, key)
	}
	if e != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

func (b *bucket) get(hash uint64, key []byte) *entry {
	for i := range b.tags {
		if b.tags[i].Load() == tagOf(hash) {
			if e := b.entries[i].Load(); e != nil && e.hasKey(key) {
				return e
			}
		}
	}
	return nil
}

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// findInList searches the list.
func (p *shard) findInList(hash uint64, key []byte) *entry {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if e, ok := p.list.Peek(hash); ok && e.hasKey(key) {
		return e
	}
	return nil
}

// secondChances bounds how many used entries are spared for one eviction.
const secondChances = 8

// put adds an entry. In a full shard it evicts the oldest entry of the tenant that has most. An entry that
// was used since it last was the oldest becomes young again (second chance).
func (p *shard) put(e *entry) {
	tenant := e.tenant()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list.Remove(e.hash)
	for range secondChances {
		hash, oldest, ok := p.list.Oldest(tenant)
		if !ok || p.list.Len() < p.size || !oldest.used.Swap(false) {
			break
		}
		p.list.Get(hash)
	}
	p.list.Add(tenant, e.hash, e)
	p.link(e)
}

// link adds an entry to the index.
func (p *shard) link(e *entry) {
	b := p.bucket(e.hash)
	for i := range b.entries {
		if b.entries[i].Load() == nil {
			b.entries[i].Store(e) // a reader that still sees the old tag compares the key
			b.tags[i].Store(tagOf(e.hash))
			return
		}
	}
	e.overflow = true
	b.overflow.Add(1)
}

// unlink removes an entry from the index.
func (p *shard) unlink(e *entry) {
	b := p.bucket(e.hash)
	if e.overflow {
		b.overflow.Add(-1)
		return
	}
	for i := range b.entries {
		if b.entries[i].Load() == e {
			b.entries[i].Store(nil)
			return
		}
	}
}

// clear removes all entries. Entries that are put meanwhile may stay.
func (p *shard) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list.Purge()
}

// dropSince removes the entries that were read at a time or later.
func (p *shard) dropSince(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hashes []uint64
	p.list.Each(func(hash uint64, e *entry) bool {
		if e.read >= at {
			hashes = append(hashes, hash)
		}
		return true
	})
	for _, hash := range hashes {
		p.list.Remove(hash)
	}
}

// recent returns the entries that have not expired.
func (p *shard) recent(now int64) (entries []*entry) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.list.Each(func(_ uint64, e *entry) bool {
		if e.until >= now {
			entries = append(entries, e)
		}
		return true
	})
	return entries
}

func (p *shard) len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.list.Len()
}

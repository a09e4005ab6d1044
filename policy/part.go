package policy

import (
	"sync"
	"sync/atomic"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// part is a shard of the cache: an LRU list of entries by tenant, and an index before it that readers use
// without a lock.
//
//	get ──► bucket ──► entry and its key        two places in memory
//	          │ full
//	          └─────► list, under the lock
type part struct {
	buckets []bucket // a power of two

	mu   sync.RWMutex // held to change anything
	size int
	list *fairshare.LRU[string, uint64, *entry] // by tenant and hash: of two keys with one hash the later is stored
}

// bucket points to some of the entries whose hash selects it. It fills a cache line.
type bucket struct {
	entries [5]atomic.Pointer[entry]
	tags    [5]atomic.Uint32 // the upper half of an entry's hash
	hidden  atomic.Int32     // number of further entries, which only the list has
}

func newPart(size int) *part {
	p := &part{buckets: make([]bucket, bucketsFor(size)), size: size}
	p.list = fairshare.NewLRU[string](size, func(_ uint64, e *entry) { p.unlink(e) })
	return p
}

func (p *part) bucket(hash uint64) *bucket { return &p.buckets[hash/parts%uint64(len(p.buckets))] }

// get returns an entry, which is immutable.
func (p *part) get(hash uint64, key []byte) *entry {
	b := p.bucket(hash)
	e := b.get(hash, key)
	if e == nil && b.hidden.Load() > 0 {
		e = p.find(hash, key)
	}
	if e != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

func (b *bucket) get(hash uint64, key []byte) *entry {
	for i := range b.tags {
		if b.tags[i].Load() == tagOf(hash) {
			if e := b.entries[i].Load(); e != nil && e.is(key) {
				return e
			}
		}
	}
	return nil
}

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// find searches the list.
func (p *part) find(hash uint64, key []byte) *entry {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if e, ok := p.list.Peek(hash); ok && e.is(key) {
		return e
	}
	return nil
}

// chances bounds how many used entries are spared for one eviction.
const chances = 8

// put adds an entry. In a full shard it evicts the oldest entry of the tenant that has most. An entry that
// was used since it last was the oldest becomes young again (second chance).
func (p *part) put(e *entry) {
	tenant := e.tenant()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list.Remove(e.hash)
	for range chances {
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
func (p *part) link(e *entry) {
	b := p.bucket(e.hash)
	for i := range b.entries {
		if b.entries[i].Load() == nil {
			b.entries[i].Store(e) // a reader that still sees the old tag compares the key
			b.tags[i].Store(tagOf(e.hash))
			return
		}
	}
	e.hidden = true
	b.hidden.Add(1)
}

// unlink removes an entry from the index.
func (p *part) unlink(e *entry) {
	b := p.bucket(e.hash)
	if e.hidden {
		b.hidden.Add(-1)
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
func (p *part) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list.Purge()
}

// recent returns the entries that have not expired.
func (p *part) recent(now int64) (entries []*entry) {
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

func (p *part) len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.list.Len()
}

package tenant

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// shards reduces contention for the lock.
const shards = 16

// memory holds the most recent answers by id. An answer is not stored if it was requested before its id was
// forgotten.
type memory[V any] struct {
	seed   maphash.Seed
	epoch  atomic.Uint64 // increases when all entries are invalidated
	shards [shards]shard[V]
}

type shard[V any] struct {
	mu         sync.RWMutex
	generation uint64 // how often entries of this shard were forgotten
	size       int
	list       *simplelru.LRU[string, *answer[V]]
	_          [64]byte
}

// answer is the cached answer for an id.
type answer[V any] struct {
	value V
	until int64  // when the answer expires
	epoch uint64 // epoch of the request
	used  atomic.Bool
}

// generation is the state of the memory when a request began.
type generation struct{ epoch, shard uint64 }

func newMemory[V any](size int) (*memory[V], error) {
	m := &memory[V]{seed: maphash.MakeSeed()}
	for i := range m.shards {
		s := &m.shards[i]
		s.size = max(size/shards, 1)
		list, err := simplelru.NewLRU[string, *answer[V]](s.size, nil)
		if err != nil {
			return nil, err
		}
		s.list = list
	}
	return m, nil
}

func (m *memory[V]) shard(id string) *shard[V] {
	return &m.shards[maphash.String(m.seed, id)%shards]
}

// get returns an answer, which must not be changed; nil: there is none.
func (m *memory[V]) get(id string) *answer[V] {
	s := m.shard(id)
	s.mu.RLock()
	a, _ := s.list.Peek(id)
	s.mu.RUnlock()
	if a != nil && !a.used.Load() {
		a.used.Store(true)
	}
	return a
}

// generation returns the argument for put. The caller takes it before it asks the store.
func (m *memory[V]) generation(id string) generation {
	s := m.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return generation{m.epoch.Load(), s.generation}
}

// secondChances is how many recently used answers an eviction skips at most.
const secondChances = 8

// put stores an answer. If there is no room, it evicts the oldest; an answer that was used since gets a second
// chance.
func (m *memory[V]) put(id string, value V, until int64, at generation) {
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != at.shard {
		return
	}
	for range secondChances {
		key, oldest, ok := s.list.GetOldest()
		if !ok || s.list.Len() < s.size || !oldest.used.Swap(false) {
			break
		}
		s.list.Get(key)
	}
	s.list.Add(strings.Clone(id), &answer[V]{value: value, until: until, epoch: at.epoch})
}

// forget removes the answer for an id, and discards pending ones.
func (m *memory[V]) forget(id string) {
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.list.Remove(id)
}

// drop removes the answer for an id.
func (m *memory[V]) drop(id string) {
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list.Remove(id)
}

// clear removes all answers, and discards pending ones.
func (m *memory[V]) clear() {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.generation++
		s.list.Purge()
		s.mu.Unlock()
	}
}

// invalidate makes all answers stale, so that they are requested again.
func (m *memory[V]) invalidate() { m.epoch.Add(1) }

func (m *memory[V]) len() (n int) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.RLock()
		n += s.list.Len()
		s.mu.RUnlock()
	}
	return n
}

package tenant

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// shards keep processors from waiting for each other's lock.
const shards = 16

// memory holds the answers that were given last, by id. An answer is not put in that was asked
// for before its id was forgotten.
type memory[V any] struct {
	seed   maphash.Seed
	epoch  atomic.Uint64 // another one when all is in doubt
	shards [shards]shard[V]
}

type shard[V any] struct {
	mu         sync.RWMutex
	generation uint64 // how often something was forgotten here
	size       int
	list       *simplelru.LRU[string, *answer[V]]
	_          [64]byte
}

// answer is what was said of an id.
type answer[V any] struct {
	value V
	until int64  // when it is asked for again
	epoch uint64 // when it was asked for
	used  atomic.Bool
}

// generation is when something was asked for.
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

// get finds an answer, which must not be changed; nil: there is none.
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

// generation is what put has to be told, taken before the answer was asked for.
func (m *memory[V]) generation(id string) generation {
	s := m.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return generation{m.epoch.Load(), s.generation}
}

// secondChances is how many answers that were used are passed over for one that was not.
const secondChances = 8

// put keeps an answer. Where there is no room the oldest goes; one that was used since it was
// last the oldest is young again.
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

// forget takes away what is known of an id, and what is on its way.
func (m *memory[V]) forget(id string) {
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.list.Remove(id)
}

// drop takes away what is known of an id.
func (m *memory[V]) drop(id string) {
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list.Remove(id)
}

// clear takes away everything, and what is on its way.
func (m *memory[V]) clear() {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.generation++
		s.list.Purge()
		s.mu.Unlock()
	}
}

// invalidate has everything asked for again, before it is taken for true.
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

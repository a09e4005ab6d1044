package tokenbucket

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Keyed has a bucket for each key, such as a tenant. It is safe for concurrent use.
type Keyed struct {
	burst int
	every time.Duration

	mu  sync.Mutex
	all *simplelru.LRU[string, *Bucket]
}

// NewKeyed returns buckets like those of New for at most this number of keys, which must be positive. The least
// recently used one is dropped.
func NewKeyed(keys, burst int, every time.Duration) *Keyed {
	all, _ := simplelru.NewLRU[string, *Bucket](keys, nil) // fails only for a size of 0
	return &Keyed{burst: burst, every: every, all: all}
}

// Of returns the bucket of a key.
func (k *Keyed) Of(key string) *Bucket {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, known := k.all.Get(key)
	if !known {
		b = New(k.burst, k.every)
		k.all.Add(key, b)
	}
	return b
}

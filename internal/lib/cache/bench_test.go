package cache_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/cache"
)

// BenchmarkHit measures a hit in a cache of a million entries: of a hundred keys, by a skewed distribution, and at
// random, which is the time that the processor waits for memory. With a key that is apart from its entry a reader waits
// once more.
func BenchmarkHit(b *testing.B) {
	const size = 1_000_000
	keyOf := func(i int) string {
		return fmt.Sprintf("tenant-%d user-%06d weather get_current_weather", i%100, i)
	}
	c := cache.New[string](size + size/4) // the parts of a cache differ in size
	for i := range size {
		e := cache.NewEntry[string](keyOf(i))
		e.Value = strings.Clone(e.Key())
		c.Put(fmt.Sprint(i%100), e)
	}
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 1, size-1)
	for _, order := range []struct {
		name string
		next func() int
	}{
		{"hot", func() int { return random.IntN(100) }},
		{"zipf", func() int { return int(zipf.Uint64()) }},
		{"uniform", func() int { return random.IntN(size) }},
	} {
		next := func() []byte { return []byte(keyOf(order.next())) }
		b.Run(order.name, func(b *testing.B) {
			hits(b, next, func(key []byte) bool { return c.GetBytes(key) != nil })
		})
		b.Run(order.name+" key apart", func(b *testing.B) {
			hits(b, next, func(key []byte) bool { return c.GetBytes(key).Value == string(key) })
		})
	}
	key := []byte(keyOf(7))
	b.Run("allocations", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.GetBytes(key)
		}
	})
}

// hits measures get with keys that are in the processor's cache, like those of a call.
func hits(b *testing.B, next func() []byte, get func(key []byte) bool) {
	var batch [64][]byte
	var took time.Duration
	n := 0
	for ; n < b.N; n += len(batch) {
		for i := range batch {
			batch[i] = next()
		}
		began := time.Now()
		for _, key := range batch {
			if !get(key) {
				b.Fatal("an entry is missing")
			}
		}
		took += time.Since(began)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/hit")
}

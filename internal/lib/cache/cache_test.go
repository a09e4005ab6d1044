package cache_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/lib/cache"
)

// put stores a value, and returns its entry.
func put(c *cache.Cache[int], owner, key string, value int) *cache.Entry[int] {
	e := cache.NewEntry[int](key)
	e.Value = value
	c.Put(owner, e)
	return e
}

// sizes has the size of a cache with one part, and of one with several parts.
var sizes = []int{1, 40, 1600}

// TestEveryKeyIsFoundAgain until it is removed, at any length of the key that an entry has room for.
func TestEveryKeyIsFoundAgain(t *testing.T) {
	t.Parallel()
	const n = 300
	keyOf := func(i int) string { return fmt.Sprint(i, strings.Repeat("x", i*4)) }
	c := cache.New[int](40 * n) // also the fullest part has room
	for i := range n {
		put(c, "", keyOf(i), i)
	}
	for i := range n {
		if e := c.GetBytes([]byte(keyOf(i))); e == nil || e.Value != i || e.Key() != keyOf(i) {
			t.Fatalf("entry %d: %+v", i, e)
		}
	}
	put(c, "", keyOf(7), 70)
	if e := c.Get(keyOf(7)); e.Value != 70 || c.Len() != n {
		t.Errorf("a replaced entry is %d, one of %d", e.Value, c.Len())
	}
	c.Remove(keyOf(7))
	c.RemoveIf(func(e *cache.Entry[int]) bool { return e.Value == 8 })
	all := c.All(func(e *cache.Entry[int]) bool { return e.Value < 10 })
	if c.Get(keyOf(7)) != nil || c.Get(keyOf(8)) != nil || len(all) != 8 || c.Len() != n-2 {
		t.Errorf("%d of %d entries are left below 10", len(all), c.Len())
	}
	c.Clear()
	for i := range n {
		if c.Get(keyOf(i)) != nil {
			t.Fatalf("entry %d is left", i)
		}
	}
	if cache.NewEntry[int](strings.Repeat("x", cache.MaxKey+1)) != nil {
		t.Error("an entry has a key that is too long")
	}
	c.Put("", nil)
}

// TestACacheIsBounded, and a full one keeps what is used over what is not.
func TestACacheIsBounded(t *testing.T) {
	t.Parallel()
	for _, size := range sizes {
		c := cache.New[int](size)
		put(c, "", "used", 0)
		for i := range 10 * size {
			put(c, "", fmt.Sprint("once ", i), i)
			if c.Get("used") == nil && size > 1 {
				t.Fatalf("of %d entries the used one was evicted by the %dth", size, i)
			}
		}
		if c.Len() > size || c.Len() < size/2 {
			t.Errorf("%d entries of %d", c.Len(), size)
		}
	}
}

// TestOneOwnerDoesNotFillTheCache: an owner with many entries evicts its own.
func TestOneOwnerDoesNotFillTheCache(t *testing.T) {
	t.Parallel()
	for _, size := range sizes[1:] {
		c := cache.New[int](size)
		for i := range size / 8 {
			put(c, "light", fmt.Sprint("light ", i), i)
		}
		for i := range 10 * size {
			put(c, "heavy", fmt.Sprint("heavy ", i), i)
		}
		for i := range size / 8 {
			if c.Get(fmt.Sprint("light ", i)) == nil {
				t.Fatalf("size %d: entry %d of another owner was evicted", size, i)
			}
		}
	}
}

// TestAnAnswerFromBeforeAChange is not stored after it.
func TestAnAnswerFromBeforeAChange(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*cache.Cache[int]){
		"none":      func(*cache.Cache[int]) {},
		"removed":   func(c *cache.Cache[int]) { c.Remove("key") },
		"forgotten": func(c *cache.Cache[int]) { c.Forget("key") },
		"all":       func(c *cache.Cache[int]) { c.Clear() },
	} {
		for _, size := range sizes {
			c := cache.New[int](size)
			put(c, "", "key", 1)
			stamp := c.Stamp("key")
			change(c)
			if e := c.Get("key"); e != nil && what != "none" {
				t.Errorf("%s: there still is %+v", what, e)
			}
			e := cache.NewEntry[int]("key")
			e.Value = 2
			c.PutSince(stamp, "", e)
			want := what == "none" || what == "removed"
			if e := c.Get("key"); (e != nil && e.Value == 2) != want {
				t.Errorf("%s: stored %+v, want %v", what, e, want)
			}
		}
	}
}

// TestManyUseACache reads, stores and removes in many goroutines. An entry always has the value of its key.
func TestManyUseACache(t *testing.T) {
	t.Parallel()
	c := cache.New[int](160)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 3000 {
				n := i * (g + 1) % 300
				key := fmt.Sprint(n)
				if e := c.Get(key); e != nil && e.Value != n {
					t.Errorf("%s has %d", key, e.Value)
				}
				switch i % 50 {
				case 0:
					c.Forget(key)
				case 1:
					c.RemoveIf(func(e *cache.Entry[int]) bool { return e.Value%7 == 0 })
				default:
					put(c, key[:1], key, n)
				}
			}
		})
	}
	all.Wait()
}

// TestAHitAllocatesNothing.
func TestAHitAllocatesNothing(t *testing.T) {
	c := cache.New[int](1600)
	key := strings.Repeat("k", 300)
	put(c, "", key, 1)
	bytes := []byte(key)
	if n := testing.AllocsPerRun(100, func() {
		if c.GetBytes(bytes) == nil || c.Get(key) == nil {
			t.Error("no entry")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

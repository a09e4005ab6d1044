package fairshare_test

import (
	"testing"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// TestLRUPushesOutWhoHasMost: an owner that fills the cache evicts its own entries, the least recently used first.
func TestLRUPushesOutWhoHasMost(t *testing.T) {
	t.Parallel()
	gone := 0
	c := fairshare.NewLRU[string](10, func(int, string) { gone++ })
	for i := range 3 {
		c.Add("light", i, "light")
	}
	for i := range 1000 {
		c.Add("heavy", 100+i, "heavy")
		c.Get(100) // stays, as it is used
	}
	for i := range 3 {
		if v, ok := c.Peek(i); !ok || v != "light" {
			t.Errorf("entry %d of who has little is gone; ok %+v; v %+v", i, ok, v)
		}
	}
	if _, ok := c.Get(100); !ok {
		t.Error("what is used is gone")
	}
	for i := range 5 {
		c.Add("third", 5000+i, "third")
	}
	if c.Len() != 10 || gone != 1008-10 {
		t.Errorf("%d entries, %d gone", c.Len(), gone)
	}
	for i := range 3 {
		if _, ok := c.Peek(i); !ok && i > 0 { // 3, 3 and 4 in some order
			t.Errorf("entry %d of who has little is gone", i)
		}
	}
	c.Add("light", 0, "again")
	c.Add("other", 0, "other's")
	if v, _ := c.Get(0); v != "other's" {
		t.Errorf("%q", v)
	}
	c.Remove(0)
	c.Remove(0)
	n := 0
	c.Each(func(int, string) bool { n++; return true })
	if n != c.Len() {
		t.Errorf("%d visited of %d", n, c.Len())
	}
	if c.Purge(); c.Len() != 0 {
		t.Error("not empty")
	}
}

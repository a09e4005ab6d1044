package gateway

import (
	"encoding/base32"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestRequestIDsAreBase32: an id that the gateway makes is text in base32, in which each bit counts once.
func TestRequestIDsAreBase32(t *testing.T) {
	t.Parallel()
	for range 1000 {
		n, groups, want := rand.Uint64(), [8]byte{}, [8]byte{}
		for i := range groups {
			want[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[n>>(i*5)&31]
		}
		binary.LittleEndian.PutUint64(groups[:], base32of(n))
		if groups != want {
			t.Fatalf("%x is %s, not %s", n, groups, want)
		}
		if _, err := base32.StdEncoding.DecodeString(string(groups[:])); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMemoryOfCallsIsReused: a shard reuses the memory of its own calls, the last one first, and keeps a bounded
// number.
func TestMemoryOfCallsIsReused(t *testing.T) {
	t.Parallel()
	p := make(callPool, 2)
	var calls []*callState
	for range keepCalls + 10 {
		c := p[0].calls.get()
		p[0].open(c)
		calls = append(calls, c)
	}
	for _, c := range calls {
		c.RequestID = c.Keep("r-1")
		p[0].release(c)
		p[0].open(c)
		p[0].put(c)
	}
	if n := len(p[0].calls); n != keepCalls {
		t.Errorf("%d calls are kept", n)
	}
	c := p[0].calls.get()
	if c != calls[keepCalls-1] || c.RequestID != "" || c.opening == nil || c.Opening == nil || len(p[1].calls) > 0 {
		t.Errorf("call %p has the id %q, opening %p", c, c.RequestID, c.opening)
	}
}

package relay

import (
	"net/netip"
	"testing"
	"time"
)

// TestKnownIsBounded: networks are forgotten after a while, and the oldest where there are too many.
func TestKnownIsBounded(t *testing.T) {
	t.Parallel()
	var k known
	network := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	now := time.Unix(1, 0)
	for i := range maxKnown {
		k.add(network(i), now)
	}
	k.add(network(0), now.Add(time.Minute))
	k.add(network(maxKnown), now.Add(time.Minute))
	for i, want := range map[int]bool{0: true, 1: false, 2: true, maxKnown: true} {
		if k.has(network(i), now.Add(knownFor-1)) != want {
			t.Errorf("network %d: %v", i, !want)
		}
	}
	if k.has(network(2), now.Add(knownFor)) {
		t.Error("a network is known for too long")
	}
	if !k.has(network(0), now.Add(knownFor)) {
		t.Error("a network that came again is forgotten too early")
	}
	if len(k.of) != maxKnown || k.latest.Len() != maxKnown {
		t.Errorf("%d, %d", len(k.of), k.latest.Len())
	}
}

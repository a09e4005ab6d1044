package accept

import (
	"net/netip"
	"testing"
	"time"
)

// TestRecentNetworksAreBounded: networks are forgotten after a while. If there are too many, the oldest is forgotten.
func TestRecentNetworksAreBounded(t *testing.T) {
	t.Parallel()
	var r recentNetworks
	network := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	now := time.Unix(1, 0)
	for i := range maxNetworks {
		r.add(network(i), now)
	}
	r.add(network(0), now.Add(time.Minute))
	r.add(network(maxNetworks), now.Add(time.Minute))
	for i, want := range map[int]bool{0: true, 1: false, 2: true, maxNetworks: true} {
		if r.has(network(i), now.Add(recentWindow-1)) != want {
			t.Errorf("network %d: %v", i, !want)
		}
	}
	if r.has(network(2), now.Add(recentWindow)) {
		t.Error("a network is known for too long")
	}
	if !r.has(network(0), now.Add(recentWindow)) {
		t.Error("a network that came again is forgotten too early")
	}
	if len(r.byNetwork) != maxNetworks || r.latest.Len() != maxNetworks {
		t.Errorf("%d, %d", len(r.byNetwork), r.latest.Len())
	}
}

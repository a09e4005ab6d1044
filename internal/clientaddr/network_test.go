package clientaddr_test

import (
	"testing"

	"github.com/capgate/capgate/internal/clientaddr"
)

// TestNetworkName: clients are distinguished by their IPv4 address, and by their /64 of IPv6.
func TestNetworkName(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "": "", "nobody": "",
	} {
		if got := clientaddr.NetworkNameOf(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

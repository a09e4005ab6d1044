package clientaddr

import "net/netip"

// Network identifies a client: the address of IPv4, the /64 of IPv6. It is not valid for an address that
// is not.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	network, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}

// NetworkName names the Network of an address: an address of IPv4, a prefix of IPv6, "" for an address that is not
// valid.
func NetworkName(a netip.Addr) string {
	switch network := Network(a); {
	case !network.IsValid():
		return ""
	case network.Addr().Is4():
		return network.Addr().String()
	default:
		return network.String()
	}
}

// NetworkNameOf is NetworkName of an address in text.
func NetworkNameOf(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	return NetworkName(a)
}

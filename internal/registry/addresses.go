package registry

import (
	"fmt"
	"net/netip"
	"strings"
)

// forbidden are addresses that a registration must not lead calls to unless the operator allows it.
// Otherwise a client that may register could make the gateway call itself, its neighbours on the machine, or
// the cloud's metadata service, which hands out credentials.
var forbidden = []struct {
	prefix netip.Prefix
	what   string
}{
	// RFC 1122 §3.2.1.3; on Linux 0.0.0.0 is this machine
	{netip.MustParsePrefix("0.0.0.0/8"), "the unspecified address"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},         // metadata of AWS, GCP, Azure and others with it
	{netip.MustParsePrefix("100.100.100.200/32"), "cloud metadata"}, // Alibaba
	{netip.MustParsePrefix("168.63.129.16/32"), "cloud metadata"},   // Azure
	{netip.MustParsePrefix("192.0.0.192/32"), "cloud metadata"},     // Oracle
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"}, // broadcast with it
	{netip.MustParsePrefix("::/128"), "the unspecified address"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "cloud metadata"},          // AWS
	{netip.MustParsePrefix("fd20:ce::254/128"), "cloud metadata"},       // GCP
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), "cloud metadata"}, // Oracle
}

// forbiddenNames are hosts of cloud metadata at any address.
var forbiddenNames = []string{
	"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
}

// embedded are the forms of IPv6 addresses that contain an IPv4 address, and its position.
var embedded = []struct {
	prefix netip.Prefix
	at     []int // of the four bytes
	flip   byte  // XOR mask of the bytes
}{
	{netip.MustParsePrefix("::/96"), []int{12, 13, 14, 15}, 0},           // IPv4-compatible, RFC 4291 §2.5.5.1
	{netip.MustParsePrefix("::ffff:0:0:0/96"), []int{12, 13, 14, 15}, 0}, // IPv4-translated, RFC 2765 §2.1
	{netip.MustParsePrefix("64:ff9b::/96"), []int{12, 13, 14, 15}, 0},    // NAT64, RFC 6052 §2.1
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{12, 13, 14, 15}, 0},  // NAT64 of one's own, RFC 8215, as /96
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{6, 7, 9, 10}, 0},     // the same as /48, RFC 6052 §2.2
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{7, 9, 10, 11}, 0},    // as /56
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{9, 10, 11, 12}, 0},   // as /64
	{netip.MustParsePrefix("2002::/16"), []int{2, 3, 4, 5}, 0},           // 6to4, RFC 3056 §2
	{netip.MustParsePrefix("2001::/32"), []int{12, 13, 14, 15}, 0xff},    // Teredo, RFC 4380 §4
	{netip.MustParsePrefix("2001::/32"), []int{4, 5, 6, 7}, 0},           // its server
}

// isatapPrefix is the beginning of the last half of an address that tunnels to the IPv4 address in its last four
// bytes (RFC 5214 §6.1); its other possible bit means "globally unique".
var isatapPrefix = [4]byte{0, 0, 0x5e, 0xfe}

// destinations returns the possible destinations of packets to an address: the address itself, or an IPv4 address
// inside it. An IPv4-mapped one must be unmapped before.
func destinations(addr netip.Addr) []netip.Addr {
	if addr.Is4() {
		return []netip.Addr{addr}
	}
	b := addr.As16()
	ends := []netip.Addr{addr}
	for _, e := range embedded {
		if !e.prefix.Contains(addr) {
			continue
		}
		var v4 [4]byte
		for i, at := range e.at {
			v4[i] = b[at] ^ e.flip
		}
		ends = append(ends, netip.AddrFrom4(v4))
	}
	if half := [4]byte(b[8:12]); half == isatapPrefix || half == [4]byte{2, 0, 0x5e, 0xfe} {
		ends = append(ends, netip.AddrFrom4([4]byte(b[12:16])))
	}
	return ends
}

// CheckAddr returns an error if no registration may have an address.
func (r *Permissions) CheckAddr(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	if r.allowed(addr) {
		return nil
	}
	for _, end := range destinations(addr) {
		for _, f := range forbidden {
			if !f.prefix.Contains(end) || r.allowed(end) {
				continue
			}
			if end == addr {
				return fmt.Errorf("%s is %s", addr, f.what)
			}
			return fmt.Errorf("%s leads to %s, which is %s", addr, end, f.what)
		}
	}
	return nil
}

func (r *Permissions) allowed(addr netip.Addr) bool {
	for _, p := range r.Allow {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// checkName returns an error if no registration may have a host name. Names that look like numbers are
// addresses for some resolvers: 127.1, 0x7f000001, 2130706433.
func checkName(host string) error {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, f := range forbiddenNames {
		if host == f {
			return fmt.Errorf("%s is cloud metadata", host)
		}
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	hex, isHex := strings.CutPrefix(last, "0x")
	if strings.Trim(last, "0123456789") == "" || isHex && strings.Trim(hex, "0123456789abcdef") == "" {
		return fmt.Errorf("%q is an address in no usual form", host)
	}
	return nil
}

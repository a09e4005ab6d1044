// Package hosts checks the names under which a port answers requests, as a defence against DNS rebinding.
//
// A foreign site may point its own name to the address of this port. The browser then takes both for one site, and
// lets the site's pages send requests and read the responses. The pages cannot forge the name, which arrives as Host
// or :authority. A port that needs no credential therefore answers known names alone. Programs other than browsers
// can send any name; this package is no defence against them.
//
//	names := hosts.New([]string{"capgate.example.com", "*.internal"})
//	names.Allows("capgate.example.com:8080", nil) // true
package hosts

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Names is the set of names that a port answers to, besides those of loopback.
type Names struct {
	exact    []string
	suffixes []string // each with its leading dot
	any      bool
	literals bool
}

// New returns the set of the given names and addresses, which have no ports. "*.example.com" matches every
// name below example.com, and "*" for every name. Comparisons ignore case and the root's dot.
func New(all []string) *Names {
	n := &Names{}
	for _, name := range all {
		name = normal(name)
		suffix, below := strings.CutPrefix(name, "*")
		switch {
		case name == "*":
			n.any = true
		case below:
			n.suffixes = append(n.suffixes, suffix)
		default:
			n.exact = append(n.exact, name)
		}
	}
	return n
}

// WithAddresses returns a set that also contains every IP address. A page cannot use an address as its own
// name, unless it is served from there.
func (n *Names) WithAddresses() *Names {
	n.literals = true
	return n
}

// Allows reports whether the port answers an authority. It always answers "localhost", names below it,
// addresses of loopback, and own, the address at which the connection arrived. It also answers "", which no
// browser sends.
func (n *Names) Allows(authority string, own net.Addr) bool {
	if authority == "" || n.any {
		return true
	}
	host, ok := hostOf(authority)
	if !ok {
		return false
	}
	host = normal(host)
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap().WithZone("")
		return n.literals || ip.IsLoopback() || ip == addrOf(own) || slices.Contains(n.exact, ip.String())
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || n.Lists(host)
}

// Lists reports whether a host without a port is one of the given names and addresses, or below one of the patterns.
// The pattern "*" lists none.
func (n *Names) Lists(host string) bool {
	host = normal(host)
	return slices.Contains(n.exact, host) || slices.ContainsFunc(n.suffixes, func(suffix string) bool {
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	})
}

// Valid reports whether New accepts a name.
func Valid(name string) bool {
	rest := strings.TrimPrefix(normal(name), "*.")
	if name == "*" {
		return true
	}
	if _, err := netip.ParseAddr(rest); err == nil {
		return !strings.HasPrefix(name, "*")
	}
	if rest == "" || len(rest) > 253 {
		return false
	}
	for label := range strings.SplitSeq(rest, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// hostOf returns an authority without its port.
func hostOf(authority string) (string, bool) {
	if strings.ContainsAny(authority, "@/?#%\\ ") {
		return "", false
	}
	if inside, is6 := strings.CutPrefix(authority, "["); is6 {
		host, rest, closed := strings.Cut(inside, "]")
		return host, closed && (rest == "" || rest[0] == ':' && isPort(rest[1:]))
	}
	host, port, _ := strings.Cut(authority, ":")
	return host, isPort(port)
}

func isPort(s string) bool { return strings.Trim(s, "0123456789") == "" }

func normal(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
